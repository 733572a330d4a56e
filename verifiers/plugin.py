"""Registers the built-in acceptance rules; each is imported when it is first used."""

from outrider.plugins.hookspecs import Register, hookimpl

VERIFIERS = {
    "token": "token:Token",
    "block": "block:Block",
    "hierarchical": "block:hierarchical",
    "sample_match": "sample_match:SampleMatch",
    "rejection": "rejection:Rejection",
    "gumbel": "gumbel:Gumbel",
    "multi_step": "recursive:MultiStep",
    "without_replacement": "recursive:WithoutReplacement",
    "k_seq": "k_seq:KSeq",
    "optimal_transport": "optimal_transport:OptimalTransport",
    "traversal": "traversal:Traversal",
    "multi_path_block": "multi_path_block:MultiPathBlock",
    "candidates": "recursive:Candidates",
    "scaled_uniform": "scaled_uniform:ScaledUniform",
    "lenient": "lenient:Lenient",
    "typical": "typical:Typical",
    "truncation": "truncation:Truncation",
    "fly": "fly:Fly",
    "cactus": "cactus:Cactus",
    "cascade": "cascade:Cascade",
}
"""By name, the module in `outrider.verifiers`, and the class or function in it."""


@hookimpl
def register_verifiers(register: Register) -> None:
    for name, place in VERIFIERS.items():
        register(name, f"outrider.verifiers.{place}")
