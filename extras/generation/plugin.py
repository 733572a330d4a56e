"""Registers the command `generate`."""

from outrider.plugins.command import Command
from outrider.plugins.hookspecs import RegisterCommand, hookimpl


@hookimpl
def register_commands(register: RegisterCommand) -> None:
    run = "outrider.extras.generation.command:generate"
    settings = "outrider.extras.generation.settings:Generate"
    register(Command("generate", "write a text", run, json=True, ranks=True, settings=settings))
