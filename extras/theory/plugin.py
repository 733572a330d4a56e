"""Registers the command `theory`, and the profiles of drafters that it reads."""

from outrider.plugins.hookspecs import Command, Register, RegisterCommand, hookimpl


@hookimpl
def register_commands(register: RegisterCommand) -> None:
    run = "outrider.extras.theory.command:theory"
    settings = "outrider.extras.theory.settings:Theory"
    about = "the papers' predictions"
    register(Command("theory", about, run, json=True, settings=settings))


@hookimpl
def register_reports(register: Register) -> None:
    register("profiles", "outrider.extras.theory.speculation_profile:Profiles")
