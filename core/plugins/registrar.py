"""What plugins have registered, and the function that they register it with."""

import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, final

from outrider.base.errors import ConfigError, PluginError, nearest
from outrider.base.terminal import plain, remarks
from outrider.plugins.command import Command
from outrider.plugins.entry import Entry

Wrapper = Callable[[Command, list[str]], AbstractContextManager[None]]

NAME = re.compile(r"[\w.-]+")
"""What a part can be called, so that a setting can choose it."""


@final
@dataclass(slots=True)
class Registry:
    """All registered parts and commands, and the Hydra search paths of all plugins.

    search_paths: in order, each with the plugin that names it.
    wrappers: what a command runs in, given the command and its arguments.
    faults: what is wrong with plugins that are left out, one line each.
    """

    entries: list[Entry] = field(default_factory=list)
    search_paths: dict[str, str] = field(default_factory=dict)
    wrappers: list[Wrapper] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def of(self, role: str) -> dict[str, Entry]:
        """Returns the entries of a role by name."""
        return {entry.name: entry for entry in self.entries if entry.role == role}

    def find(self, role: str, name: str) -> Entry:
        """Returns the entry with this role and name.

        Raises `ConfigError` if there is none; the message suggests the nearest names.
        """
        known = self.of(role)
        if name not in known:
            left_out = "".join(f"; {fault}" for fault in self.faults)
            raise ConfigError(f"{role}={name!r}: {nearest(name, known)}{left_out}")
        return known[name]

    def leave_out(self, fault: str) -> None:
        """Notes what is wrong with a plugin, and says so on stderr."""
        self.faults.append(fault)
        remarks().print(plain(fault, "yellow"), soft_wrap=True)

    @property
    def commands(self) -> dict[str, Command]:
        """Returns the commands by name."""
        return {name: entry.source for name, entry in self.of("command").items()}


@final
@dataclass(frozen=True, slots=True)
class Registrar:
    """The `register` function that a plugin's hook for one role is called with."""

    registry: Registry
    role: str
    plugin: str
    distribution: str

    def __call__(
        self, part: str | Command, factory: Any = None, *, extra: str | None = None
    ) -> None:
        """Adds a part by its name, or a command, to the registry.

        Raises `PluginError` if the name is taken, or `factory` makes no concrete class of the role;
        what is given by its place, "module:name", is checked when it is imported.
        """
        if isinstance(part, Command):
            entry = Entry(self.role, part.name, part, self.plugin, self.distribution, part.extra)
        else:
            entry = Entry(self.role, part, factory, self.plugin, self.distribution, extra)
        if (self.role == "command") != isinstance(entry.source, Command):
            raise PluginError(f"{entry.claim} is {entry.source!r}: expected an outrider.Command")
        if not (isinstance(entry.name, str) and NAME.fullmatch(entry.name)):
            raise PluginError(
                f"{entry.claim}: expected a name of letters, digits, '_', '-' and '.'"
            )
        if not isinstance(entry.source, str | Command):
            _ = entry.factory
        if (other := self.registry.of(self.role).get(entry.name)) is not None:
            raise PluginError(
                f"{entry.claim} is taken: {other.distribution} registered that name before"
            )
        self.registry.entries.append(entry)
