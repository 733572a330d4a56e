"""Registers the commands for serving with vLLM."""

from collections.abc import Callable

from outrider.plugins.command import Command
from outrider.plugins.hookspecs import hookimpl

SERVING = "outrider.extras.serving"


@hookimpl
def register_commands(register: Callable[[Command], None]) -> None:
    run = f"{SERVING}.serve_config:serve_config"
    register(Command("serve-config", "the same drafter in vLLM", run, extra="serving"))
    run = f"{SERVING}.audit.command:audit"
    register(Command("audit", "whether a server is lossless", run, json=True, extra="serving"))
    run = f"{SERVING}.serve_check:serve_check"
    register(Command("serve-check", "compare it with vLLM's", run, json=True, extra="serving"))
