"""Registers the command `beams`."""

from outrider.plugins.hookspecs import Command, RegisterCommand, hookimpl


@hookimpl
def register_commands(register: RegisterCommand) -> None:
    run = "outrider.extras.beams.command:beams"
    settings = "outrider.extras.beams.settings:Beams"
    register(Command("beams", "faster beam search", run, json=True, settings=settings))


@hookimpl
def config_search_paths() -> list[str]:
    return ["pkg://outrider.extras.beams.conf"]
