"""Registers the engines that run passes as graphs."""

from outrider.plugins.hookspecs import Register, hookimpl


@hookimpl
def register_engines(register: Register) -> None:
    register("compile", "outrider.extras.graphs.engines:CompiledPasses")
    register("graphs", "outrider.extras.graphs.engines:RecordedPasses")
