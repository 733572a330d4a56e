"""Registers the command `bench`."""

from collections.abc import Callable

from outrider.plugins.command import Command
from outrider.plugins.hookspecs import hookimpl


@hookimpl
def register_commands(register: Callable[[Command], None]) -> None:
    run = "outrider.extras.bench.command:bench"
    register(Command("bench", "beside other libraries", run, json=True, extra="bench"))
