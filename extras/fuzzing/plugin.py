"""Registers the command `fuzz`."""

from collections.abc import Callable

from outrider.plugins.command import Command
from outrider.plugins.hookspecs import hookimpl


@hookimpl
def register_commands(register: Callable[[Command], None]) -> None:
    run = "outrider.extras.fuzzing.command:fuzz"
    register(Command("fuzz", "try random combinations", run, json=True, extra="fuzzing"))
