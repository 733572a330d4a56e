"""Profiles follow the rules of their format, and are read back by them."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tiny.profile_rules import checked

from outrider.base.errors import ConfigError
from outrider.extras.theory.speculation_profile import read_profile, write_profiles
from outrider.lab.runs.run import Run
from outrider.lab.runs.summary import Summary
from outrider.verifiers.block import Block


def test_each_drafter_that_drafted_has_a_profile(whole_run: Run, tmp_path: Path) -> None:
    summary = Summary(whole_run)
    paths = write_profiles(summary, tmp_path)
    assert [path.parent.name for path in paths] == ["lookup", "bigram"]
    for path, row in zip(paths, summary.rows[1:], strict=True):
        written, profile = checked(path), read_profile(path)
        rate, counts = row.rates["block_efficiency"], row.counts
        assert rate is not None and counts is not None
        assert profile.mean_accept_length == pytest.approx(rate.value, abs=1e-6)
        assert sum(written["acceptance_length_histogram"].values()) == counts.rounds
        assert written["num_speculative_tokens"] == 3
        assert profile.verification_method == "longest_prefix"
        assert all(check["passed"] for check in written["validation"].values())
        assert written["measurement_conditions"]["verifier"] == "token"
        tokens = profile.tokens_by_length()
        assert list(tokens) == [1, 2, 3]
        assert tokens[3] == pytest.approx(rate.value, abs=1e-5)
        for length, expected in written["accept_length_by_k"].items():
            assert tokens[int(length)] == pytest.approx(expected, abs=1e-5)


def test_block_verification_is_said(run_in: Callable[..., Any], tmp_path: Path) -> None:
    summary = Summary(run_in(tmp_path / "run", protocol="decode", verifier=Block()).run)
    for path in write_profiles(summary, tmp_path):
        checked(path)
        profile = read_profile(path)
        assert profile.verification_method == "block" and list(profile.tokens_by_length()) == [3]


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
    lookup, bigram = map(read_profile, paths)
    assert list(lookup.tokens_by_length()) == [1, 2, 3]
    assert bigram.tokens_by_length() == {3: pytest.approx(bigram.mean_accept_length)}


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"schema_version": "2.0"}, "schema_version: Input should be '1.0'"),
        ({"marginal_accept_rates": [0.5, 0.6, 0.1]}, "marginal_accept_rates that do not rise"),
        ({"mean_accept_length": 2.9}, r"mean_accept_length=2\.9: expected 1\.\d+, which the"),
    ],
)
def test_a_profile_that_breaks_a_rule_is_refused(
    changes: Any, line: str, whole_run: Run, tmp_path: Path
) -> None:
    path, *_ = write_profiles(Summary(whole_run), tmp_path)
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    with pytest.raises(ConfigError, match=line):
        read_profile(path)
