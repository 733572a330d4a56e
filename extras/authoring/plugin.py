"""Registers the command `new-plugin`."""

from collections.abc import Callable

from outrider.plugins.command import Command
from outrider.plugins.hookspecs import hookimpl


@hookimpl
def register_commands(register: Callable[[Command], None]) -> None:
    run = "outrider.extras.authoring.new_plugin:new_plugin"
    register(Command("new-plugin", "write a plugin's package", run, plain=True))
