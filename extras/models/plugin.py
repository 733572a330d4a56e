"""Registers the models as targets."""

from outrider.plugins.hookspecs import Register, hookimpl


@hookimpl
def register_targets(register: Register) -> None:
    for name in ("smollm2", "gemma3"):
        register(name, f"outrider.extras.models.{name}:{name}")
