"""Hierarchical speculative decoding: enumeration shows that it is block verification."""

from collections import defaultdict
from typing import Any

import pytest

from outrider import Draft, EnumeratedChance, SampledChance, Sampling, Scores, Verifier
from outrider.contract.chance import Chance
from outrider.targets.tabular import TabularTarget
from outrider.testing import parametrize_with_checks
from outrider.testing.stage import draft_after
from outrider.testing.staged_drafters import ChainDrafter
from outrider.verifiers.block import Block
from outrider.verifiers.hierarchical import Hierarchical

SAMPLED = Sampling(temperature=1.0)


@parametrize_with_checks([Hierarchical])
def test_conformance(make: Any, check: Any) -> None:
    check(make)


def verdicts(rule: Verifier, draft: Draft, scores: Scores) -> dict[tuple[int, int], float]:
    """Returns the exact probability of each (accepted length, next token)."""
    output: dict[tuple[int, int], float] = defaultdict(float)

    def play(chance: Chance) -> tuple[int, int]:
        verdict = rule.verify(draft, scores, chance)
        return len(verdict.accepted), verdict.next_token

    for probability, verdict in EnumeratedChance.outcomes(play):
        output[verdict] += probability
    return output


@pytest.mark.parametrize("kind", ["drawn", "written", "mixed", "exact", "disjoint"])
def test_every_draft_gets_the_verdicts_of_block(kind: str) -> None:
    """Not on average only: draft by draft, so that outputs and lengths have one distribution."""
    for seed in range(24 if kind == "drawn" else 6):
        target = TabularTarget(3 + seed % 3, 2, seed, sharpness=1.5)
        drafter = ChainDrafter(target, kind, 1000 + seed)
        for gamma in (1, 2, 4):
            draft = draft_after(drafter, target, [0, 2], gamma, seed=seed)
            scores = Scores(target.open([0, 2]).score(draft), SAMPLED)
            here, there = (verdicts(rule, draft, scores) for rule in (Hierarchical(), Block()))
            assert all(
                here[verdict] == pytest.approx(there[verdict], abs=1e-12)
                for verdict in {*here, *there}
            )


def test_hierarchical_accepts_as_much_as_block(accepted_tokens: Any) -> None:
    for seed in range(3):
        target = TabularTarget(3, 2, seed, sharpness=1.5)
        drafter = ChainDrafter(target, "drawn", 1000 + seed)
        here, there = (
            accepted_tokens(rule, drafter, target, [0, 2], 2) for rule in (Hierarchical(), Block())
        )
        assert here == pytest.approx(there, abs=1e-12)


def test_long_drafts_neither_overflow_nor_vanish() -> None:
    target = TabularTarget(4, 2, 3, sharpness=30.0)
    drafter = ChainDrafter(target, "drawn", 5)
    draft = draft_after(drafter, target, [0, 2], 200)
    scores = Scores(target.open([0, 2]).score(draft), SAMPLED)
    for seed in range(20):
        verdict = Hierarchical().verify(draft, scores, SampledChance.seeded(seed))
        assert 0 <= verdict.next_token < 4
