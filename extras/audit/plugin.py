"""Registers the command `audit`."""

from outrider.plugins.hookspecs import Command, RegisterCommand, hookimpl


@hookimpl
def register_commands(register: RegisterCommand) -> None:
    run, settings = "outrider.extras.audit.command:audit", "outrider.extras.audit.settings:Audit"
    about = "whether a server is lossless"
    words = "outrider.extras.audit.settings:settings_of"
    register(Command("audit", about, run, json=True, settings=settings, extra="audit", words=words))
