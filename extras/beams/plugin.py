"""Registers the command `beams`."""

from collections.abc import Callable

from outrider.plugins.command import Command
from outrider.plugins.hookspecs import hookimpl


@hookimpl
def register_commands(register: Callable[[Command], None]) -> None:
    run = "outrider.extras.beams.command:beams"
    settings = "outrider.extras.beams.settings:Beams"
    register(Command("beams", "faster beam search", run, json=True, settings=settings))
