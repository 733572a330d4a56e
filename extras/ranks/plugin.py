"""Registers the engine that spreads a model over ranks."""

from outrider.plugins.hookspecs import Register, hookimpl
from outrider.targets.passes.engine import RANKS


@hookimpl
def register_engines(register: Register) -> None:
    register(RANKS, "outrider.extras.ranks.engine:Ranks")
