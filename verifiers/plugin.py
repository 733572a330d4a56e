"""Registers the built-in acceptance rules; each is imported when it is first used."""

from outrider.plugins.hookspecs import Register, hookimpl

VERIFIERS = (
    *("token", "block", "sample_match", "rejection", "gumbel", "k_seq", "optimal_transport"),
    *("traversal", "multi_path_block", "scaled_uniform", "lenient", "typical", "truncation"),
    *("fly", "cactus", "cascade", "multi_step", "without_replacement", "candidates"),
)
MODULES = {
    **dict.fromkeys(("multi_step", "without_replacement", "candidates"), "recursive"),
    "truncation": "typical",
    "scaled_uniform": "lenient",
    "rejection": "sample_match",
}
"""The modules of rules, where they are not named after the rule."""


@hookimpl
def register_verifiers(register: Register) -> None:
    for name in VERIFIERS:
        place = f"{MODULES.get(name, name)}:{name.title().replace('_', '')}"
        register(name, f"outrider.verifiers.{place}")
    register("hierarchical", "outrider.verifiers.block:hierarchical")
