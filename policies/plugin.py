"""Registers the policies but `fixed`, which is in the contract."""

from outrider.plugins.hookspecs import Register, hookimpl

POLICIES = (
    *("heuristic", "confidence", "entropy", "optimal", "goodput", "utility", "bandit"),
    *("classifier", "cost_model"),
)


@hookimpl
def register_policies(register: Register) -> None:
    for name in POLICIES:
        register(name, f"outrider.policies.{name}:{name.title().replace('_', '')}")
