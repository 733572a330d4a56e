"""The registry: which parts are installed, and who registered them."""

import inspect
import os
import sys
from collections.abc import Callable, Iterable
from contextlib import redirect_stdout
from functools import cache, partial
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType
from typing import Any

import pluggy

from outrider.base.errors import ANY_FAULT, PluginError, described
from outrider.plugins import hookspecs
from outrider.plugins.builtin import builtin_modules
from outrider.plugins.entry import Entry, Registry
from outrider.plugins.hookspecs import Command
from outrider.plugins.roles import ROLES

GROUP = "outrider"
"""The entry point group that plugins register under."""


def registry_from(extra: Iterable[ModuleType] = (), *, installed: bool = True) -> Registry:
    """Returns what the built-in plugins and others register.

    A plugin that is broken, or takes a name that another one holds, is left out and named on
    stderr, with its distribution.

    extra: further modules or objects that implement hooks.
    installed: whether to load the entry points of installed distributions too. Those named in the
        environment variable OUTRIDER_BLOCK_PLUGINS, separated by commas, are left out.
    """
    registry = Registry()
    points = list(dict.fromkeys(entry_points(group=GROUP)))  # a line that is there twice is one
    manager = _loaded(registry, extra, points if installed else ())
    owners = {entry.name: entry.dist.name for entry in points if entry.dist}
    owners |= dict.fromkeys(builtin_modules(), "outrider")

    def call(hook: str, use: Callable[[pluggy.HookImpl, str], None]) -> None:
        # One by one, not all through the hook, so that an error names its plugin.
        for impl in getattr(manager.hook, hook).get_hookimpls():
            try:
                use(impl, owners.get(impl.plugin_name, impl.plugin_name))
            except PluginError as error:
                registry.entries = [it for it in registry.entries if it.plugin != impl.plugin_name]
                registry.leave_out(f"{error} {_hint(impl.plugin_name)}")

    def register(role: str, impl: pluggy.HookImpl, owner: str) -> None:
        def add(part: str | Command, factory: Any = None, *, extra: str | None = None) -> None:
            registry.add(
                Entry(role, part.name, part, impl.plugin_name, owner, part.extra)
                if isinstance(part, Command)
                else Entry(role, part, factory, impl.plugin_name, owner, extra)
            )

        answer = _call(impl, owner, add)
        if answer is not None:  # a coroutine or a generator has not run
            getattr(answer, "close", lambda: None)()
            claim = f"plugin {impl.plugin_name!r} of {owner}: {impl.function.__name__}()"
            line = f"returned {type(answer).__name__}: expected None, and calls of register"
            raise PluginError(f"{claim} {line}")

    def add_paths(impl: pluggy.HookImpl, owner: str) -> None:
        paths, claim = _call(impl, owner), f"plugin {impl.plugin_name!r} of {owner}"
        if not isinstance(paths, list | tuple):
            line = f"{claim}: config_search_paths() returned {paths!r:.60}: expected a list"
            raise PluginError(line)
        registry.search_paths |= dict.fromkeys(map(str, paths), claim)

    for role, about in ROLES.items():
        call(about.hook, partial(register, role))
    call("register_commands", partial(register, "command"))
    call("config_search_paths", add_paths)
    call("wrap_command", lambda *plugin: registry.wrappers.append(partial(_call, *plugin)))
    registry.silent = [
        f"plugin {name!r} of {owners.get(name, name)} registers nothing: expected functions with"
        " outrider.hookimpl"
        for name, plugin in manager.list_name_plugin()
        if not manager.get_hookcallers(plugin)
    ]
    # Help lists the commands as they are registered.
    registry.entries.sort(
        key=lambda entry: (entry.role, "" if entry.role == "command" else entry.name)
    )
    return registry


@cache
def installed() -> Registry:
    """Returns the registry of this installation; it is read once per process."""
    return registry_from()


@cache
def builtin() -> Registry:
    """Returns the registry of the built-in parts alone: it is there even if a plugin is broken."""
    return registry_from(installed=False)


def command_entry(name: str) -> Entry:
    """Returns the entry of a command; only one that is not built in has the plugins loaded.

    Raises `ConfigError` if there is none.
    """
    return builtin().of("command").get(name) or installed().find("command", name)


def _loaded(
    registry: Registry, extra: Iterable[ModuleType], entries: Iterable[EntryPoint]
) -> pluggy.PluginManager:
    """Returns a manager that holds the built-in plugins and others, less those that are broken."""
    manager = pluggy.PluginManager(GROUP)
    manager.add_hookspecs(hookspecs)
    for name in builtin_modules():
        manager.register(import_module(name), name)
    for module in extra:
        manager.register(module)
    blocked = {name.strip() for name in os.environ.get("OUTRIDER_BLOCK_PLUGINS", "").split(",")}
    for entry in entries:
        if entry.name not in blocked:
            try:
                _load(manager, entry)
            except ANY_FAULT as error:
                owner = entry.dist.name if entry.dist else "an unknown distribution"
                reason = described(error, entry.value.partition(":")[0])
                line = f"plugin {entry.name!r} of {owner} can't be loaded: {reason}"
                registry.leave_out(f"{line} {_hint(entry.name)}")
    return manager


def _load(manager: pluggy.PluginManager, entry: EntryPoint) -> None:
    if not EntryPoint.pattern.match(entry.value):
        raise ValueError(f"{entry.value!r} names no module: expected letters, digits and '_'")
    with redirect_stdout(sys.stderr):  # what it prints is no result of a command
        module = entry.load()
    if inspect.isclass(module):
        raise TypeError(f"{module.__name__} is a class: expected a module or an instance")
    if manager.has_plugin(entry.name):
        raise ValueError("another entry point has that name")
    if (other := manager.get_name(module)) is not None:
        raise ValueError(f"it has the hooks of the plugin {other!r}, which is loaded already")
    manager.register(module, entry.name)
    try:
        manager.check_pending()
    except pluggy.PluginValidationError:
        manager.unregister(name=entry.name)
        raise


def _hint(plugin: str) -> str:
    return f"(OUTRIDER_BLOCK_PLUGINS={plugin} runs without it)"


def _call(impl: pluggy.HookImpl, owner: str, *arguments: Any) -> Any:
    try:
        return impl.function(*arguments[: len(impl.argnames)])
    except PluginError:
        raise
    except ANY_FAULT as error:
        raise PluginError(
            f"plugin {impl.plugin_name!r} of {owner} failed in {impl.function.__name__}:"
            f" {described(error, impl.function.__module__)}"
        ) from error
