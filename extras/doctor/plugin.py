"""Registers the command `doctor`."""

from outrider.plugins.hookspecs import Command, RegisterCommand, hookimpl


@hookimpl
def register_commands(register: RegisterCommand) -> None:
    run = "outrider.extras.doctor.command:doctor"
    register(Command("doctor", "is all well on this machine?", run, plain=True, json=True))
