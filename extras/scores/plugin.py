"""Registers the scores."""

from outrider.plugins.hookspecs import Register, hookimpl


@hookimpl
def register_scores(register: Register) -> None:
    register("pass1", "outrider.extras.scores.pass1:Pass1")
