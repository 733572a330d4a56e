"""Registers the command `view`."""

from collections.abc import Callable

from outrider.plugins.command import Command
from outrider.plugins.hookspecs import hookimpl


@hookimpl
def register_commands(register: Callable[[Command], None]) -> None:
    run = "outrider.cli.commands.report:report"
    register(Command("report", "gather runs of compare", run, plain=True, json=True, extra="view"))
    run = "outrider.extras.view.command:view"
    register(Command("view", "look at them in a browser", run, plain=True, extra="view"))
