"""What a policy has learned is there in the next run; other files are refused."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from outrider import ConfigError
from outrider.policies.bandit import Bandit
from outrider.policies.confidence import Confidence
from outrider.policies.goodput import Goodput
from outrider.policies.optimal import Optimal

LEARNERS: list[tuple[Callable[..., Any], list[str]]] = [
    (Bandit, ["_learned"]),
    (Goodput, ["alpha", "_calls", "_drafts"]),
    (Optimal, ["_accepted", "_tested", "_draft", "_score", "_drafted", "_rounds"]),
    (Confidence, ["threshold", "_seen"]),
]
"""Policies that learn, and what a file keeps of each: its format does not change."""


def taught(make: Callable[..., Any], path: Path, outcome: Any, sure: Any) -> Any:
    extra = {"refit": True} if make is Confidence else {}
    policy = make(state=str(path), **extra)
    policy.reset()
    for number in range(40):
        depth = policy.depth(5)
        for length in range(1, depth + 1):
            policy.more(sure(*(0.9, 0.8, 0.3, 0.2, 0.1)[:length]))
        round = outcome(depth, min(depth, 2), draft=0.02, score=1 + 0.1 * depth)
        assert not path.exists() or make.__name__ not in json.loads(path.read_text())
        policy.observe(replace(round, stop="eos") if number == 39 else round)
    return policy


@pytest.mark.parametrize(("make", "names"), LEARNERS)
def test_the_next_run_starts_from_the_learned_state(
    make: Callable[..., Any], names: list[str], tmp_path: Path, outcome: Any, sure: Any
) -> None:
    path = tmp_path / "learned" / "state.json"
    policy = taught(make, path, outcome, sure)
    learned = json.loads(path.read_text())
    assert (list(learned), list(learned[make.__name__])) == ([make.__name__, "texts"], names)
    extra = {"refit": True} if make is Confidence else {}
    again, untaught = make(state=str(path), **extra), make(**extra)
    for name in ("alpha", "c", "threshold", "_arms", "_calls"):
        if hasattr(policy, name):
            learned = json.loads(json.dumps(getattr(policy, name)))
            assert json.loads(json.dumps(getattr(again, name))) == learned
            assert name == "c" or json.loads(json.dumps(getattr(untaught, name))) != learned
    assert again.depth(5) == policy.depth(5)


def test_a_file_without_a_number_of_texts_is_read(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    path.write_text('{"Bandit": {"_learned": [[1, 4, 2.0]]}}')
    assert Bandit(state=str(path)).texts_before == 1


@pytest.mark.parametrize("content", ["{", '{"Goodput": {}}'])
def test_another_file_is_refused(content: str, tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    path.write_text(content)
    with pytest.raises(ConfigError, match=r"policy\.state=.*: expected what Bandit has learned"):
        Bandit(state=str(path))
