"""Registers the constraints."""

from outrider.plugins.hookspecs import Register, hookimpl

HERE = "outrider.constraints"


@hookimpl
def register_constraints(register: Register) -> None:
    register("penalties", f"{HERE}.penalties:Penalties")
    for name in ("regex", "json_schema", "grammar"):
        register(name, f"{HERE}.guidance:{name}", extra="guidance")
