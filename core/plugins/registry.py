"""The registry: which parts are installed, who registered them, and how to make one by name."""

import importlib
import inspect
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pkgutil import resolve_name
from types import ModuleType
from typing import Any, final, get_type_hints

import pluggy

from outrider.base.errors import ANY_FAULT, ConfigError, PluginError, described, nearest
from outrider.contract.drafter import Drafter
from outrider.contract.policy import Policy
from outrider.contract.target import Target
from outrider.contract.verifier import Verifier
from outrider.plugins import hookspecs
from outrider.plugins.builtin import BUILTIN

GROUP = "outrider"
"""The entry point group that plugins register under."""

ROLES: dict[str, type[Any]] = {
    "drafter": Drafter,
    "verifier": Verifier,
    "policy": Policy,
    "target": Target,
}
"""The roles, each with the class that its parts derive from."""

ENGINE = "outrider.targets.passes.engine:Engine"
"""The class of engines, which lies above this folder: it is imported for the first of them."""


@final
@dataclass(frozen=True, slots=True)
class Entry:
    """A registered part: its role and name, and the plugin and distribution that it came with.

    factory: makes the part; its signature is the part's Hydra config.
    product: the class of the part.
    """

    role: str
    name: str
    factory: Callable[..., Any]
    product: type[Any]
    plugin: str
    distribution: str


@final
@dataclass(slots=True)
class Registry:
    """All registered parts, and the Hydra search paths of all plugins."""

    entries: list[Entry] = field(default_factory=list)
    search_paths: list[str] = field(default_factory=list)

    def of(self, role: str) -> dict[str, Entry]:
        """Returns the entries of a role by name."""
        return {entry.name: entry for entry in self.entries if entry.role == role}

    def find(self, role: str, name: str) -> Entry:
        """Returns the entry with this role and name.

        Raises:
            ConfigError: there is none; the message suggests the nearest names.
        """
        known = self.of(role)
        if name not in known:
            raise ConfigError(f"{role}={name!r}: {nearest(name, known)}")
        return known[name]


@final
@dataclass(frozen=True, slots=True)
class Registrar:
    """The `register` function that a plugin's hook for one role is called with."""

    registry: Registry
    role: str
    plugin: str
    distribution: str

    def __call__(self, name: str, factory: Any) -> None:
        """Adds a part to the registry.

        Raises:
            PluginError: `factory` makes no concrete class of the role, or the name is taken.
        """
        claim = f"{self.role} {name!r} of {self.distribution}"
        product = _product(factory)
        kind = ROLES.get(self.role) or resolve_name(ENGINE)
        if product is None or not issubclass(product, kind):
            raise PluginError(
                f"{claim} is {factory!r}: expected a class of {kind.__name__},"
                " or a function annotated to return one"
            )
        if missing := sorted(getattr(product, "__abstractmethods__", ())):
            raise PluginError(f"{claim} is abstract: {product.__name__} lacks {', '.join(missing)}")
        if (other := self.registry.of(self.role).get(name)) is not None:
            raise PluginError(f"{claim} is taken: {other.distribution} registered that name before")
        self.registry.entries.append(
            Entry(self.role, name, factory, product, self.plugin, self.distribution)
        )


def plural(role: str) -> str:
    """Returns the plural of a role's name: `policies` for `policy`."""
    return role.removesuffix("y") + "ies" if role.endswith("y") else f"{role}s"


def plugin_manager(
    extra: Iterable[ModuleType] = (), *, installed: bool = True
) -> pluggy.PluginManager:
    """Returns a new manager that holds the built-in plugins and others.

    extra: further modules or objects that implement hooks.
    installed: whether to load the entry points of installed distributions too. Those named in the
        environment variable OUTRIDER_BLOCK_PLUGINS, separated by commas, are left out.

    Raises:
        PluginError: a plugin can't be imported, or its hooks don't match the hook specifications.
    """
    manager = pluggy.PluginManager(GROUP)
    manager.add_hookspecs(hookspecs)
    blocked = {name.strip() for name in os.environ.get("OUTRIDER_BLOCK_PLUGINS", "").split(",")}
    for name in BUILTIN:
        manager.register(importlib.import_module(name), name)
    for module in extra:
        manager.register(module)
    for entry in entry_points(group=GROUP) if installed else ():
        if entry.name not in blocked:
            _load(manager, entry)
    return manager


def registry_from(manager: pluggy.PluginManager) -> Registry:
    """Returns everything that the plugins of `manager` register.

    Raises:
        PluginError: a hook fails, registers something other than a concrete class of its role, or
            takes a name that another plugin holds; the message names the distributions.
    """
    owners = {entry.name: entry.dist.name for entry in entry_points(group=GROUP) if entry.dist}
    owners |= dict.fromkeys(BUILTIN, "outrider")
    registry = Registry()
    # Plugins are called one by one, not all through the hook, so that an error names its plugin.
    for role in (*ROLES, "engine"):
        for impl in getattr(manager.hook, f"register_{plural(role)}").get_hookimpls():
            owner = owners.get(impl.plugin_name, impl.plugin_name)
            _call(impl, owner, Registrar(registry, role, impl.plugin_name, owner))
    for impl in manager.hook.config_search_paths.get_hookimpls():
        paths = _call(impl, owners.get(impl.plugin_name, impl.plugin_name))
        registry.search_paths += [str(path) for path in paths]
    registry.entries.sort(key=lambda entry: (entry.role, entry.name))
    return registry


@cache
def installed() -> Registry:
    """Returns the registry of this installation; it is read once per process."""
    return registry_from(plugin_manager())


def make(role: str, part: Any, **arguments: Any) -> Any:
    """Returns a part of a role, made by its name; an instance of the role is returned as it is.

    part: a name, an instance, or a mapping of the role to a name with settings beside it, such as
        {"drafter": "bigram", "order": 3}. For a target, also a hub id or the folder of a
        transformers model.
    arguments: settings; they override those of a mapping.

    Raises:
        ConfigError: there is no part or setting of that name.
    """
    if isinstance(part, Mapping) and role in part:
        settings = {name: value for name, value in part.items() if name != role}
        return make(role, part[role], **{**settings, **arguments})
    if not isinstance(part, str):
        if isinstance(part, ROLES[role]):
            return part
        raise ConfigError(f"{role}={part!r}: expected a name or an instance of {role.title()}")
    registry = installed()
    if role == "target" and part not in registry.of(role) and "/" in part:
        return registry.find(role, "transformers").factory(part, **arguments)
    factory = registry.find(role, part).factory
    known = inspect.signature(factory).parameters
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in known.values())
    for name in arguments:
        if name not in known and not takes_any:
            raise ConfigError(f"{role} {part}: {name}: {nearest(name, known)}")
    return factory(**arguments)


def _load(manager: pluggy.PluginManager, entry: EntryPoint) -> None:
    owner = entry.dist.name if entry.dist else "an unknown distribution"
    hint = f"(OUTRIDER_BLOCK_PLUGINS={entry.name} runs without it)"
    try:
        module = entry.load()
        manager.register(module, entry.name)
        manager.check_pending()
    except ANY_FAULT as error:
        raise PluginError(
            f"plugin {entry.name!r} of {owner} can't be loaded: {described(error)} {hint}"
        ) from error


def _call(impl: pluggy.HookImpl, owner: str, *arguments: Any) -> Any:
    try:
        return impl.function(*arguments[: len(impl.argnames)])
    except PluginError:
        raise
    except ANY_FAULT as error:
        raise PluginError(
            f"plugin {impl.plugin_name!r} of {owner} failed in {impl.function.__name__}:"
            f" {described(error)}"
        ) from error


def _product(factory: Any) -> type[Any] | None:
    """Returns the class of what `factory` makes, None if it is not annotated."""
    if inspect.isclass(factory):
        return factory
    returned = get_type_hints(factory).get("return") if inspect.isfunction(factory) else None
    return returned if inspect.isclass(returned) else None
