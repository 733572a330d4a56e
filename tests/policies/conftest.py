"""Puts a policy through rounds."""

from typing import Any

import pytest


@pytest.fixture
def played(outcome: Any) -> Any:
    """Returns a function that plays rounds with a policy and returns the depths that it chose.

    alpha: maps the depth to the number of accepted tokens.
    score: maps the depth to the seconds of the call.
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
