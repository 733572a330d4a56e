"""Registers the command `view`, and what they show of a run at its end."""

from outrider.plugins.hookspecs import Command, Register, RegisterCommand, hookimpl


@hookimpl
def register_commands(register: RegisterCommand) -> None:
    run = "outrider.extras.view.command:view"
    register(Command("view", "runs in the browser", run, plain=True, extra="view"))


@hookimpl
def register_reports(register: Register) -> None:
    register("page", "outrider.extras.view.report:Page", extra="view")
    register("tables", "outrider.extras.view.report:Tables", extra="view")
