"""Rounds that a policy is put through."""

from typing import Any

import pytest


@pytest.fixture
def played(outcome: Any) -> Any:
    """Plays rounds with a policy, and returns the depths that it chose.

    alpha: from a depth, how many are accepted. score: from how many are drafted, the seconds.
    """

    def play(policy: Any, rounds: int, gamma: int, alpha: Any, **times: Any) -> list[int]:
        score = times.pop("score", lambda drafted: 1.0)
        policy.reset()
        depths = []
        for _ in range(rounds):
            depth = policy.depth(gamma)
            depths.append(depth)
            policy.observe(outcome(depth, alpha(depth), score=score(depth), **times))
        return depths

    return play
