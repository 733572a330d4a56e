"""Profiles follow the rules of their format."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tiny.profile_rules import checked

from outrider.extras.theory.speculation_profile import write_profiles
from outrider.lab.runs.run import Run
from outrider.lab.runs.summary import Summary
from outrider.verifiers.block import Block


def test_each_drafter_that_drafted_has_a_profile(whole_run: Run, tmp_path: Path) -> None:
    summary = Summary(whole_run)
    paths = write_profiles(summary, tmp_path)
    assert [path.parent.name for path in paths] == ["lookup", "bigram"]
    for path, row in zip(paths, summary.rows[1:], strict=True):
        written = checked(path)
        rate, counts = row.rates["block_efficiency"], row.counts
        assert rate is not None and counts is not None
        assert written["mean_accept_length"] == pytest.approx(rate.value, abs=1e-6)
        assert sum(written["acceptance_length_histogram"].values()) == counts.rounds
        assert written["num_speculative_tokens"] == 3
        assert written["verification_method"] == "longest_prefix"
        assert all(check["passed"] for check in written["validation"].values())
        assert written["measurement_conditions"]["verifier"] == "token"
        for length, tokens in written["accept_length_by_k"].items():
            expected = 1 + sum(written["marginal_accept_rates"][: int(length)])
            assert tokens == pytest.approx(expected, abs=1e-5)


def test_block_verification_is_said(run_in: Callable[..., Any], tmp_path: Path) -> None:
    summary = Summary(run_in(tmp_path / "run", protocol="decode", verifier=Block()).run)
    for path in write_profiles(summary, tmp_path):
        profile = checked(path)
        assert profile["verification_method"] == "block"
        assert list(profile["accept_length_by_k"]) == ["3"]


LOOKUP = {"drafter": {"_target_": "outrider.drafters.prompt_lookup.PromptLookup"}}
WHOLE = {"drafter": {"_target_": "outrider.drafters.dflash.DFlash", "path": "/data/org/mine"}}


@pytest.mark.parametrize("config", [WHOLE, LOOKUP | {"policy": {"_target_": "a.Heuristic"}}])
def test_drafts_that_change_with_their_length_say_nothing_of_shorter_ones(
    config: Any, whole_run: Run, tmp_path: Path
) -> None:
    drafters = whole_run.facts["drafters"] | {"bigram": config, "lookup": LOOKUP}
    run = replace(whole_run, facts={**whole_run.facts, "drafters": drafters})
    paths = write_profiles(Summary(run), tmp_path)
    first, second = map(checked, paths)
    assert first["method"] == "prompt_lookup" and first["draft_checkpoint"] is None
    assert second["method"] == ("dflash" if config is WHOLE else "prompt_lookup")
    assert second["draft_checkpoint"] == ({"name": "org/mine"} if config is WHOLE else None)
    lengths = [list(profile["accept_length_by_k"]) for profile in (first, second)]
    assert lengths == [["1", "2", "3"], ["3"]]
