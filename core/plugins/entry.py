"""Registered parts: each is imported and checked when it is first used."""

import inspect
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import distributions
from pkgutil import resolve_name
from typing import Any, final

from packaging.requirements import Requirement

from outrider.base.calling import hints_of
from outrider.base.errors import ConfigError, PluginError, described, nearest
from outrider.base.terminal import remark
from outrider.plugins.hookspecs import Command
from outrider.plugins.roles import ROLES

Wrapper = Callable[[Command, list[str]], AbstractContextManager[None]]

NAME = re.compile(r"[\w.-]+")
"""What a part can be called, so that a setting can choose it."""


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

    def check_extra(self) -> None:
        """Raises `ConfigError` if a library of its group is not installed."""
        if self.extra and (missing := lacking(self.distribution, self.extra)):
            special = {"command": f"outrider {self.name}", "report": f"reports=[{self.name}]"}
            what = special.get(self.role, f"{self.role}={self.name}")
            package = f"{self.distribution}[{self.extra}]"
            line = f"{what} needs {', '.join(missing)}: pip install '{package}'"
            raise ConfigError(line)


@cache
def _factory(entry: Entry) -> Callable[..., Any]:
    source = entry.source.run if isinstance(entry.source, Command) else entry.source
    try:
        factory: Callable[..., Any] = resolve_name(source) if isinstance(source, str) else source
    except ImportError as error:
        entry.check_extra()
        line = f"{entry.claim} can't be imported: {described(error, entry.path)}"
        raise PluginError(line) from error
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


@final
@dataclass(slots=True)
class Registry:
    """All registered parts and commands, and the Hydra search paths of all plugins.

    search_paths: in order, each with the plugin that names it.
    wrappers: what a command runs in, given the command and its arguments.
    faults: what is wrong with plugins that are left out, one line each.
    silent: those that register nothing, likewise.
    """

    entries: list[Entry] = field(default_factory=list)
    search_paths: dict[str, str] = field(default_factory=dict)
    wrappers: list[Wrapper] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    silent: list[str] = field(default_factory=list)

    def of(self, role: str) -> dict[str, Entry]:
        return {entry.name: entry for entry in self.entries if entry.role == role}

    def find(self, role: str, name: str) -> Entry:
        """Returns the entry with this role and name.

        Raises `ConfigError` if there is none; the message suggests the nearest names.
        """
        known = self.of(role)
        if name not in known:
            raise ConfigError(f"{role}={name!r}: {nearest(name, known)}{self.why_missing}")
        return known[name]

    @property
    def why_missing(self) -> str:
        """Returns why a name may not be known, for the end of a message; "" for no reason."""
        return "".join(f"; {line}" for line in (*self.faults, *self.silent))

    def leave_out(self, fault: str) -> None:
        """Notes what is wrong with a plugin, and says so on stderr."""
        self.faults.append(fault)
        remark(fault, "yellow")

    def add(self, entry: Entry) -> None:
        """Adds a part or a command.

        Raises `PluginError` if the name is taken, or no concrete class of the role is made; what is
        given by its place, "module:name", is checked when it is imported.
        """
        if (entry.role == "command") != isinstance(entry.source, Command):
            raise PluginError(f"{entry.claim} is {entry.source!r}: expected an outrider.Command")
        if not (isinstance(entry.name, str) and NAME.fullmatch(entry.name)):
            expected = "expected a name of letters, digits, '_', '-' and '.'"
            raise PluginError(f"{entry.claim}: {expected}")
        if not isinstance(entry.source, str | Command):
            _ = entry.factory
        if (other := self.of(entry.role).get(entry.name)) is not None:
            line = f"{other.distribution} registered that name before"
            raise PluginError(f"{entry.claim} is taken: {line}")
        self.entries.append(entry)

    @property
    def commands(self) -> dict[str, Command]:
        return {name: entry.source for name, entry in self.of("command").items()}


def lacking(owner: str, group: str) -> list[str]:
    """Returns the libraries of a group that are not installed. owner: the distribution."""
    needed = (name for name, of in _libraries(owner) if of == group)
    return [name for name in needed if not any(distributions(name=name))]


def group_with(library: str, owner: str = "outrider") -> str | None:
    """Returns the group of a distribution that brings a library; None if there is none."""
    return next((group for name, group in _libraries(owner) if name == library), None)


def _libraries(owner: str) -> Iterator[tuple[str, str]]:
    """Yields the optional libraries, each with its group; none of what was not installed."""
    lines = [line for found in distributions(name=owner) for line in found.requires or ()]
    for needed in map(Requirement, lines):
        condition, _, group = str(needed.marker).replace('"', "").rpartition("extra == ")
        holds = not condition or (needed.marker and needed.marker.evaluate({"extra": group}))
        if group and holds:
            yield needed.name, group
