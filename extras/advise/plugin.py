"""Registers the command `advise`."""

from outrider.plugins.hookspecs import Command, RegisterCommand, hookimpl


@hookimpl
def register_commands(register: RegisterCommand) -> None:
    run = "outrider.extras.advise.command:advise"
    settings = "outrider.extras.advise.settings:Advise"
    about = "Which drafter, how long?"
    register(Command("advise", about, run, json=True, settings=settings))
