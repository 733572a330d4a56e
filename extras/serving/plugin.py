"""Registers the commands for serving with vLLM."""

from outrider.plugins.hookspecs import Command, RegisterCommand, hookimpl

SERVING = "outrider.extras.serving"


@hookimpl
def register_commands(register: RegisterCommand) -> None:
    run, settings = f"{SERVING}.serve_config:serve_config", f"{SERVING}.settings:ServeConfig"
    about = "the same drafter in vLLM"
    register(Command("serve-config", about, run, settings=settings, extra="serving"))
    run, settings = f"{SERVING}.serve_check:serve_check", f"{SERVING}.settings:ServeCheck"
    about = "check a drafter in vLLM"
    register(Command("serve-check", about, run, json=True, settings=settings, extra="serving"))
