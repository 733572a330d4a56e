"""Registers what the engine makes drafters of."""

from outrider.plugins.hookspecs import Register, hookimpl


@hookimpl
def register_drafters(register: Register) -> None:
    register("quantized", "outrider.extras.cpu.quantized:Quantized")
