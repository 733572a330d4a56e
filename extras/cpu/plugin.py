"""Registers the engine, and the drafter that rounds the target's weights."""

from outrider.plugins.hookspecs import Register, hookimpl


@hookimpl
def register_engines(register: Register) -> None:
    register("packed", "outrider.extras.cpu.engine:PackedWeights")


@hookimpl
def register_drafters(register: Register) -> None:
    register("quantized", "outrider.extras.cpu.quantized:Quantized")
