"""Registers the engine that spreads a model over ranks."""

from outrider.plugins.hookspecs import Register, hookimpl


@hookimpl
def register_engines(register: Register) -> None:
    register("ranks", "outrider.extras.ranks.engine:Ranks")
