"""A registered part, which is imported and checked when it is first used."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pkgutil import resolve_name
from typing import Any, final

from outrider.base.annotations import hints_of
from outrider.base.errors import ConfigError, OutriderError, PluginError, described
from outrider.plugins.command import Command
from outrider.plugins.roles import ROLES


@final
@dataclass(frozen=True, slots=True)
class Entry:
    """A registered part: its role and name, and the plugin and distribution that it came with.

    role: a key of `ROLES`, or "command".
    source: what makes the part, or where that is: "module:name". Of a command, the `Command`.
    extra: the group of the distribution's optional dependencies that it needs, if any.
    """

    role: str
    name: str
    source: Any
    plugin: str
    distribution: str
    extra: str | None = None

    @property
    def factory(self) -> Callable[..., Any]:
        """Returns what makes the part, or runs the command; it is imported only now.

        The signature of a part's factory is its Hydra config.

        Raises:
            PluginError: it can't be imported, or makes no concrete class of the role.
            ConfigError: an optional dependency is not installed.
        """
        return _factory(self)

    @property
    def product(self) -> type[Any] | None:
        """Returns the class of the part; None if a function makes it that is not annotated."""
        return _product(self.factory)

    @property
    def path(self) -> str:
        """Returns the dotted name of the factory, which need not be imported for that."""
        source = self.source.run if isinstance(self.source, Command) else self.source
        if isinstance(source, str):
            return source.replace(":", ".")
        return f"{source.__module__}.{source.__qualname__}"

    @property
    def claim(self) -> str:
        """Returns what the entry claims to be, for messages."""
        return f"{self.role} {self.name!r} of {self.distribution}"

    def explained(self, error: ImportError) -> OutriderError:
        """Returns why an import of the part failed: what to install, or what is broken."""
        missing = (error.name or "").partition(".")[0]
        is_own = missing == self.path.partition(".")[0]
        if self.extra is None or is_own:
            return PluginError(f"{self.claim} can't be imported: {described(error, self.path)}")
        what = f"outrider {self.name}" if self.role == "command" else f"{self.role}={self.name}"
        package = f"{self.distribution}[{self.extra}]"
        return ConfigError(f"{what} needs {missing}: pip install '{package}'")


@cache
def _factory(entry: Entry) -> Callable[..., Any]:
    source = entry.source.run if isinstance(entry.source, Command) else entry.source
    try:
        factory: Callable[..., Any] = resolve_name(source) if isinstance(source, str) else source
    except ImportError as error:
        raise entry.explained(error) from error
    except AttributeError as error:
        raise PluginError(f"{entry.claim} is {source!r}: {error}") from error
    kind = ROLES[entry.role].kind if entry.role in ROLES else None
    if kind is None:
        if not callable(factory):
            raise PluginError(f"{entry.claim} is {factory!r}: expected a function or a class")
        return factory
    product = _product(factory)
    if product is None or not issubclass(product, kind):
        raise PluginError(
            f"{entry.claim} is {factory!r}: expected a class of {kind.__name__},"
            " or a function annotated to return one"
        )
    if missing := sorted(getattr(product, "__abstractmethods__", ())):
        raise PluginError(
            f"{entry.claim} is abstract: {product.__name__} lacks {', '.join(missing)}"
        )
    return factory


def _product(factory: Any) -> type[Any] | None:
    """Returns the class of what `factory` makes, None if it is not annotated."""
    if inspect.isclass(factory):
        return factory
    returned = hints_of(factory).get("return") if inspect.isfunction(factory) else None
    return returned if inspect.isclass(returned) else None
