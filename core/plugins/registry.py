"""Plugins: what is registered, by whom, and how it is made from its name."""

import importlib
import inspect
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType
from typing import Any, final, get_type_hints

import pluggy

from outrider.contract.drafter import Drafter
from outrider.contract.policy import Policy
from outrider.contract.target import Target
from outrider.contract.verifier import Verifier
from outrider.errors import ConfigError, PluginError, nearest
from outrider.plugins import hookspecs

GROUP = "outrider"
ROLES: dict[str, type[Any]] = {
    "drafter": Drafter,
    "verifier": Verifier,
    "policy": Policy,
    "target": Target,
}
BUILTIN = (
    "outrider.drafters.none",
    "outrider.drafters.random",
    "outrider.drafters.ngram",
    "outrider.drafters.prompt_lookup",
    "outrider.drafters.small_lm",
    "outrider.drafters.hierarchy",
    "outrider.drafters.hybrid",
    "outrider.drafters.lookahead_decoding",
    "outrider.drafters.medusa",
    "outrider.drafters.mlp_speculator",
    "outrider.drafters.eagle",
    "outrider.drafters.eagle3",
    "outrider.drafters.falcon",
    "outrider.drafters.self_sparse",
    "outrider.drafters.shallow_aggressive",
    "outrider.verifiers.token",
    "outrider.verifiers.block",
    "outrider.verifiers.sample_match",
    "outrider.verifiers.rejection",
    "outrider.verifiers.multi_step",
    "outrider.verifiers.without_replacement",
    "outrider.verifiers.k_seq",
    "outrider.verifiers.traversal",
    "outrider.verifiers.multi_path_block",
    "outrider.verifiers.candidates",
    "outrider.verifiers.scaled_uniform",
    "outrider.verifiers.lenient",
    "outrider.verifiers.typical",
    "outrider.policies.fixed",
    "outrider.policies.heuristic",
    "outrider.policies.confidence",
    "outrider.policies.entropy",
    "outrider.policies.optimal",
    "outrider.policies.goodput",
    "outrider.policies.utility",
    "outrider.policies.bandit",
    "outrider.policies.classifier",
    "outrider.targets.builtin",
)


@final
@dataclass(frozen=True, slots=True)
class Entry:
    """What was registered under a role and name, and the plugin and distribution it came with.

    factory: makes the part; its signature is the part's Hydra config.
    product: the class of what it makes.
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
    """All that is registered, and the Hydra search paths of all plugins."""

    entries: list[Entry] = field(default_factory=list)
    search_paths: list[str] = field(default_factory=list)

    def of(self, role: str) -> dict[str, Entry]:
        """Returns the entries of a role by name."""
        return {entry.name: entry for entry in self.entries if entry.role == role}

    def find(self, role: str, name: str) -> Entry:
        """Returns the entry of that role and name.

        Raises:
            ConfigError: there is none; the message offers the nearest names.
        """
        known = self.of(role)
        if name not in known:
            raise ConfigError(f"{role}={name!r}: {nearest(name, known)}")
        return known[name]


def plugin_manager(
    extra: Iterable[ModuleType] = (), *, installed: bool = True
) -> pluggy.PluginManager:
    """Returns a fresh manager with the built-in plugins, and more.

    extra: further modules or objects that implement hooks.
    installed: whether to load the entry points of the group `outrider` too. The environment
        variable OUTRIDER_BLOCK_PLUGINS holds back those named there, separated by commas.

    Raises:
        PluginError: a plugin can't be imported or does not fit the hooks.
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


def plural(role: str) -> str:
    """Returns what several parts of a role are called: `policies` for `policy`."""
    return role.removesuffix("y") + "ies" if role.endswith("y") else f"{role}s"


def _load(manager: pluggy.PluginManager, entry: EntryPoint) -> None:
    owner = entry.dist.name if entry.dist else "an unknown distribution"
    hint = f"(OUTRIDER_BLOCK_PLUGINS={entry.name} runs without it)"
    try:
        module = entry.load()
        manager.register(module, entry.name)
        manager.check_pending()
    except Exception as error:  # whatever a stranger's module raises at import
        line = " ".join(str(error).split())
        raise PluginError(
            f"plugin {entry.name!r} of {owner} can't be loaded: {type(error).__name__}: {line} {hint}"
        ) from error


def read(manager: pluggy.PluginManager) -> Registry:
    """Returns what the plugins of `manager` register.

    Raises:
        PluginError: a hook fails, or registers what is not a concrete class of its role, or
            a name that another plugin holds; the message names the distributions.
    """
    owners = {entry.name: entry.dist.name for entry in entry_points(group=GROUP) if entry.dist}
    owners |= dict.fromkeys(BUILTIN, "outrider")
    registry = Registry()
    # One plugin after another, rather than one call of the hook, so that a fault has a name.
    for role in ROLES:
        for impl in getattr(manager.hook, f"register_{plural(role)}").get_hookimpls():
            owner = owners.get(impl.plugin_name, impl.plugin_name)
            _call(impl, owner, partial(_register, registry, role, impl.plugin_name, owner))
    for impl in manager.hook.config_search_paths.get_hookimpls():
        paths = _call(impl, owners.get(impl.plugin_name, impl.plugin_name))
        registry.search_paths += [str(path) for path in paths]
    registry.entries.sort(key=lambda entry: (entry.role, entry.name))
    return registry


def _call(impl: pluggy.HookImpl, owner: str, *arguments: Any) -> Any:
    try:
        return impl.function(*arguments[: len(impl.argnames)])
    except PluginError:
        raise
    except Exception as error:
        raise PluginError(
            f"plugin {impl.plugin_name!r} of {owner} failed in {impl.function.__name__}:"
            f" {type(error).__name__}: {error}"
        ) from error


def _register(
    registry: Registry, role: str, plugin: str, owner: str, name: str, factory: Any
) -> None:
    claim = f"{role} {name!r} of {owner}"
    product = _product(factory)
    if product is None or not issubclass(product, ROLES[role]):
        raise PluginError(
            f"{claim} is {factory!r}: expected a class of {ROLES[role].__name__},"
            " or a function annotated to return one"
        )
    if missing := sorted(getattr(product, "__abstractmethods__", ())):
        raise PluginError(f"{claim} is abstract: {product.__name__} lacks {', '.join(missing)}")
    if (other := registry.of(role).get(name)) is not None:
        raise PluginError(f"{claim} is taken: {other.distribution} registered that name before")
    registry.entries.append(Entry(role, name, factory, product, plugin, owner))


def _product(factory: Any) -> type[Any] | None:
    if inspect.isclass(factory):
        return factory
    returned = get_type_hints(factory).get("return") if inspect.isfunction(factory) else None
    return returned if inspect.isclass(returned) else None


@cache
def installed() -> Registry:
    """Returns what is registered on this machine, read once a process."""
    return read(plugin_manager())


def make(role: str, wanted: Any, **arguments: Any) -> Any:
    """Returns `wanted` itself where it is an instance of the role, else makes it by its name.

    A mapping holds the name under the role's, and settings beside it, as in
    {"drafter": "bigram", "order": 3}. A target's name may also be a hub id or a folder of a
    transformers model.

    Raises:
        ConfigError: there is no such name or setting.
    """
    if isinstance(wanted, Mapping) and role in wanted:
        settings = {name: value for name, value in wanted.items() if name != role}
        return make(role, wanted[role], **{**settings, **arguments})
    if not isinstance(wanted, str):
        if isinstance(wanted, ROLES[role]):
            return wanted
        raise ConfigError(f"{role}={wanted!r}: expected a name or an instance of {role.title()}")
    registry = installed()
    if role == "target" and wanted not in registry.of(role) and "/" in wanted:
        return registry.find(role, "transformers").factory(wanted, **arguments)
    factory = registry.find(role, wanted).factory
    known = inspect.signature(factory).parameters
    open_ended = any(each.kind is each.VAR_KEYWORD for each in known.values())
    for name in arguments:
        if name not in known and not open_ended:
            raise ConfigError(f"{role} {wanted}: {name}: {nearest(name, known)}")
    return factory(**arguments)
