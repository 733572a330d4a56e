"""Registers the command `fuzz`."""

from outrider.plugins.command import Command
from outrider.plugins.hookspecs import RegisterCommand, hookimpl


@hookimpl
def register_commands(register: RegisterCommand) -> None:
    run = "outrider.extras.fuzzing.command:fuzz"
    settings = "outrider.extras.fuzzing.command_settings:Fuzz"
    about = "try random combinations"
    register(Command("fuzz", about, run, json=True, settings=settings, extra="fuzzing"))
