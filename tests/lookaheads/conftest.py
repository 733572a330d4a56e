"""Rounds and drafts that policies are shown."""

from typing import Any

import pytest
import torch

from outrider import Draft
from outrider.decoding import Round


@pytest.fixture
def outcome() -> Any:
    """Makes a round with a chain of which so much was accepted. draft: seconds a token."""

    def make(
        drafted: int, accepted: int, *, draft: float = 0.0, score: float = 1.0, verify: float = 0.0
    ) -> Round:
        tokens = tuple(range(accepted + 1))
        return Round(
            tokens=tokens,
            origins=("x",) * len(tokens),
            pieces=("",) * len(tokens),
            draft=tuple(range(drafted)),
            parents=tuple(range(-1, drafted - 1)),
            drafted=drafted,
            tested=min(drafted, accepted + 1),
            accepted=accepted,
            seconds={"draft": draft * drafted, "score": score, "verify": verify},
        )

    return make


@pytest.fixture
def sure() -> Any:
    """Makes a draft whose token 0 the drafter gave those probabilities."""

    def make(*probabilities: float) -> Draft:
        logits = tuple(torch.tensor([p, (1 - p) / 2, (1 - p) / 2]).log() for p in probabilities)
        count = len(probabilities)
        return Draft((0,) * count, tuple(range(-1, count - 1)), (None,) * count, logits)

    return make


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
