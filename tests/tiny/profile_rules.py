"""The rules of speculation_profile.json, as NVIDIA's specdec_bench states them."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

CHAINS = ("eagle", "eagle1", "eagle2", "eagle3", "draft_model")
"""The methods whose shorter drafts begin longer ones, by the reference's own list."""

ENTRIES = {
    "schema_version", "measured", "method", "draft_checkpoint", "target_model",
    "num_speculative_tokens", "block_size", "max_supported_k", "verification_method",
    "conditional_accept_rates", "marginal_accept_rates", "mean_accept_length",
    "mean_accept_length_per_request", "accept_length_model", "accept_length_by_k",
    "acceptance_length_histogram", "per_category", "measurement_conditions", "validation",
}  # fmt: skip


def checked(path: Path) -> Any:
    """Returns the content of a profile that keeps every rule of schema 1.0."""
    content: Any = json.loads(path.read_text())
    assert set(content) == ENTRIES and content["schema_version"] == "1.0"
    count, marginal = content["num_speculative_tokens"], content["marginal_accept_rates"]
    assert content["measured"] is True and content["max_supported_k"] >= count
    rates = [1.0, *marginal]
    assert all(before >= after >= 0 for before, after in pairwise(rates))
    conditional = [after / before if before else 0 for before, after in pairwise(rates)]
    assert content["conditional_accept_rates"] == pytest.approx(conditional, abs=1e-5)
    assert len(marginal) == len(conditional) == count
    rounds = {int(k): v for k, v in content["acceptance_length_histogram"].items()}
    mean = sum(k * v for k, v in rounds.items()) / sum(rounds.values())
    assert content["mean_accept_length"] == pytest.approx(mean, abs=1e-6)
    assert max(rounds) <= count + 1
    by_length = content["accept_length_by_k"]
    assert by_length[str(count)] == pytest.approx(mean, abs=1e-5)
    is_chain = content["accept_length_model"] == "chain_analytic"
    assert list(by_length) == [str(k) for k in range(1 if is_chain else count, count + 1)]
    assert is_chain or content["method"] not in CHAINS
    assert is_chain or content["accept_length_model"] == "measured_per_k"
    assert content["verification_method"] in ("longest_prefix", "block")
    for named in (content["draft_checkpoint"], content["target_model"]):
        assert named is None or named["name"].count("/") <= 1  # no folder of a machine
    consistency = content["validation"]["mean_consistency"]
    assert consistency["implied_mean_accept_length"] == pytest.approx(sum(rates), abs=1e-5)
    assert consistency["passed"] == (consistency["abs_delta"] <= consistency["tolerance"])
    assert content["validation"]["marginal_monotonicity"] == {"passed": True, "violations": []}
    return content
