"""Registers the command `doctor`."""

from collections.abc import Callable

from outrider.plugins.command import Command
from outrider.plugins.hookspecs import hookimpl


@hookimpl
def register_commands(register: Callable[[Command], None]) -> None:
    run = "outrider.extras.doctor.command:doctor"
    register(Command("doctor", "is all well on this machine?", run, plain=True, json=True))
