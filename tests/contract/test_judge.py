"""Verdicts that are decided with a recorded pass: those of the rule, by the same numbers."""

from typing import Any

import pytest
import torch
from tiny.graph_replayer import GraphReplayer
from torch import Tensor

from outrider import Draft, Sampling, TargetError
from outrider.contract.chance import SampledChance
from outrider.contract.judge import Judge
from outrider.contract.verifier import Scores
from outrider.plugins.parts import make
from tests.devices import accelerator

RULES = ("token", "block", "rejection")
SAMPLINGS = [Sampling(), Sampling(temperature=1), Sampling(temperature=0.7, top_p=0.9)]
SIZES = [(0, 1), (1, 2), (2, 4), (5, 6), (4, 8), (7, 8)]
"""Tokens of a chain, and of the pass that it is padded to."""


def case(count: int, sampling: Sampling, seed: int) -> tuple[Draft, Tensor]:
    """Returns a chain, and the logits of a target that mostly agrees."""
    numbers = torch.Generator().manual_seed(seed)
    logits = torch.randn(count + 1, 600, generator=numbers) * 3
    own = logits[:count] + torch.randn(count, 600, generator=numbers) / 2
    probs = sampling.exact(own) if count else own
    tokens = tuple(int(row.multinomial(1, generator=numbers)) for row in probs)
    parents = tuple(range(-1, count - 1))
    return Draft(tokens, parents, (None,) * count if sampling.greedy else tuple(probs)), logits


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=["greedy", "sampled", "nucleus"])
@pytest.mark.parametrize("name", RULES)
def test_recorded_verdicts_are_those_of_the_rule(name: str, sampling: Sampling) -> None:
    """And they use as many numbers, which only matter above temperature 0."""
    rule = make("verifier", name)
    for count, size in SIZES:
        own, found, replay = list[Tensor](), Any, Any
        with accelerator() as device:
            for seed in range(6):
                draft, logits = case(count, sampling, seed)
                near, far = SampledChance.seeded(seed), SampledChance.seeded(seed)
                expected = rule.verify(draft, Scores(logits, sampling), near)
                probs = tuple(None if row is None else row.to(device) for row in draft.probs)
                there = Draft(draft.tokens, draft.parents, probs)
                judge = Judge.of(rule, there, sampling, far)
                assert judge is not None
                padding = torch.full((size - count - 1, 600), float("nan"))
                given = [torch.cat([logits, padding]).to(device), *judge.given(size, device)]
                if not own:
                    own = [each.clone() for each in given]
                    found, replay = GraphReplayer()(lambda run=judge.run, own=own: run(*own))
                for inner, outer in zip(own, given, strict=True):
                    inner.copy_(outer)
                replay()
                assert judge.read(found) == expected
                if not sampling.greedy:
                    assert near.share() == far.share()
                    assert near.ahead(2, coins=True) == far.ahead(2, coins=True)


def test_logits_that_are_no_numbers_are_named() -> None:
    draft, logits = case(2, Sampling(temperature=1), 0)
    logits[2, 5] = float("nan")
    judge = Judge.of(make("verifier", "token"), draft, Sampling(temperature=1), SampledChance(b""))
    assert judge is not None
    with pytest.raises(TargetError, match=r"^the target gave logits with NaN"):
        judge.read(judge.run(logits, *judge.given(3, torch.device("cpu"))))
