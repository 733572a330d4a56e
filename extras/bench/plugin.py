"""Registers the command `bench`."""

from outrider.plugins.hookspecs import Command, RegisterCommand, hookimpl


@hookimpl
def register_commands(register: RegisterCommand) -> None:
    run = "outrider.extras.bench.command:bench"
    settings = "outrider.extras.bench.settings:Bench"
    about = "speed beside other libraries"
    register(Command("bench", about, run, json=True, settings=settings))
