"""Registers the commands of those who write parts: `check`, `plugins` and `new-plugin`."""

from outrider.plugins.command import Command
from outrider.plugins.hookspecs import RegisterCommand, hookimpl

HERE = "outrider.extras.authoring"


@hookimpl
def register_commands(register: RegisterCommand) -> None:
    settings = f"{HERE}.settings:Check"
    run = f"{HERE}.check:check"
    register(Command("check", "prove a part", run, json=True, settings=settings))
    run = f"{HERE}.plugins:plugins"
    register(Command("plugins", "what is registered, by whom", run, plain=True, json=True))
    run = f"{HERE}.new_plugin:new_plugin"
    register(Command("new-plugin", "write a plugin's package", run, plain=True))
