"""Writes speculation_profile.json: how good a drafter is, in the format of NVIDIA's tools.

The format is that of schema 1.0 in examples/specdec_bench of NVIDIA's Model-Optimizer. Dynamo's
mocker reads its conditional rates, vLLM's synthetic acceptance the marginal ones.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

from outrider.lab.statistics.acceptance import Acceptance

NAME = "speculation_profile.json"
TOLERANCE = 0.02
"""How far the mean may be from the one that the marginal rates imply."""

BLOCKS = ("dflash",)
"""The drafters that engines let fill a block as long as the draft, so shorter drafts differ."""

BLOCKWISE = ("block", "traversal")
"""The rules that judge a draft as a whole."""


@final
@dataclass(frozen=True, slots=True)
class Subject:
    """What was measured.

    drafter, target: their settings in the run.
    rule, policy: the names of their classes, in lower case.
    is_chain: whether drafts are chains.
    """

    drafter: Mapping[str, Any]
    target: Mapping[str, Any] | None
    rule: str = "token"
    policy: str = "fixed"
    is_chain: bool = True


def profile(
    acceptance: Acceptance, subject: Subject, conditions: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns the content of a profile. conditions: what it was measured with."""
    drafter, target = subject.drafter, subject.target or {}
    method, is_block = module_of(drafter), subject.rule in BLOCKWISE
    is_prefix = subject.is_chain and not is_block and method not in BLOCKS
    extrapolates = is_prefix and subject.policy in ("", "fixed")
    requests, rates = (
        acceptance.mean_acceptance_length_per_request,
        acceptance.marginal_accept_rates,
    )
    mean, count = acceptance.mean_acceptance_length.value, len(rates)
    implied = 1 + sum(rates)
    by_length = {str(count): mean}
    if extrapolates:
        by_length = {str(k): 1 + sum(rates[:k]) for k in range(1, count + 1)}
    return {
        "schema_version": "1.0",
        "measured": True,
        "method": method or None,
        "draft_checkpoint": _named(drafter.get("path") or drafter.get("model")),
        "target_model": _named(target.get("model") or class_name(target)),
        "num_speculative_tokens": count,
        "block_size": None,
        "max_supported_k": count,
        "verification_method": "block" if is_block else "longest_prefix",
        "conditional_accept_rates": [
            round(rate or 0.0, 6) for rate in acceptance.conditional_accept_rates
        ],
        "marginal_accept_rates": [round(rate, 6) for rate in rates],
        "mean_accept_length": round(mean, 6),
        "mean_accept_length_per_request": None if requests is None else round(requests.value, 6),
        "accept_length_model": "chain_analytic" if extrapolates else "measured_per_k",
        "accept_length_by_k": {k: round(tokens, 6) for k, tokens in by_length.items()},
        "acceptance_length_histogram": acceptance.acceptance_length_histogram,
        "per_category": None,
        "measurement_conditions": dict(conditions),
        "validation": {
            "mean_consistency": {
                "implied_mean_accept_length": round(implied, 6),
                "reported_mean_accept_length": round(mean, 6),
                "abs_delta": round(abs(implied - mean), 6),
                "tolerance": TOLERANCE,
                "passed": abs(implied - mean) <= TOLERANCE,
            },
            "marginal_monotonicity": {"passed": True, "violations": []},
        },
    }


def module_of(drafter: Mapping[str, Any]) -> str:
    """Returns the module of a drafter, which has its family's name, by its settings in a run."""
    return str(drafter.get("_target_", "")).split(".")[-2:][0]


def class_name(config: Mapping[str, Any] | None) -> str:
    """Returns the name of a part's class in lower case, as its settings in a run give it."""
    return str((config or {}).get("_target_", "")).rpartition(".")[2].lower()


def _named(path: Any) -> dict[str, str] | None:
    """Returns the last two parts of a path or hub id, so that no folder of a machine is published.

    >>> _named("/data/models/org/drafter")
    {'name': 'org/drafter'}
    """
    parts = [part for part in str(path or "").replace("\\", "/").split("/") if part]
    return {"name": "/".join(parts[-2:])} if parts else None
