"""Verdicts that are decided with a recorded pass: those of the rule, by the same numbers."""

from typing import Any

import pytest
import torch
from tiny.graph_replayer import GraphReplayer
from torch import Tensor

from outrider import Draft, Sampling, TargetError
from outrider.contract.chance import SampledChance
from outrider.contract.judge import Judge, Judges
from outrider.contract.verifier import Scores
from outrider.plugins.parts import make
from tests.devices import accelerator

RULES = ("token", "block", "rejection")
SAMPLINGS = [Sampling(), Sampling(temperature=1), Sampling(temperature=0.7, top_p=0.9)]
PASSES: list[Any] = [
    ([0], 1, 1),
    ([1], 2, 2),
    ([2], 4, 3),
    ([5, 3, 0], 6, 6),
    ([4, None, 7, 1], 8, 8),
    ([None, 2, 3], 8, 5),
]
"""The tokens of each chain, None without a judge, of their pass, and where they end in it."""


def case(count: int, sampling: Sampling, seed: int) -> tuple[Draft, Tensor]:
    """Returns a chain, and the logits of a target that mostly agrees."""
    numbers = torch.Generator().manual_seed(seed)
    logits = torch.randn(count + 1, 600, generator=numbers) * 3
    own = logits[:count] + torch.randn(count, 600, generator=numbers) / 2
    probs = sampling.exact(own) if count else own
    tokens = tuple(int(row.multinomial(1, generator=numbers)) for row in probs)
    parents = tuple(range(-1, count - 1))
    drawn = tuple(row if seed % 3 < node + 2 else None for node, row in enumerate(probs))
    return Draft(tokens, parents, (None,) * count if sampling.greedy else drawn), logits


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=["greedy", "sampled", "nucleus"])
@pytest.mark.parametrize("name", RULES)
def test_recorded_verdicts_are_those_of_the_rule(name: str, sampling: Sampling) -> None:
    """And they use as many numbers, which only matter above temperature 0."""
    rule = make("verifier", name)
    for counts, size, end in PASSES:
        own, found, replay = list[Tensor](), Any, Any
        with accelerator() as device:
            for seed in range(3):
                rows, texts = list[Any](), list[Any]()
                logits = torch.full((len(counts), size, 600), float("nan"))
                for row, count in enumerate(counts):
                    number = seed + 7 * row
                    draft, own_logits = case(count or 0, sampling, number)
                    near, far = SampledChance.seeded(number), SampledChance.seeded(number)
                    logits[row, end - len(own_logits) : end] = own_logits
                    expected = rule.verify(draft, Scores(own_logits, sampling), near)
                    probs = tuple(None if it is None else it.to(device) for it in draft.probs)
                    there = Draft(draft.tokens, draft.parents, probs)
                    rows.append(None if count is None else Judge.of(rule, there, sampling, far))
                    texts.append((expected, near, far))
                judges = Judges.of(rows, end)
                assert judges is not None
                given = [logits.to(device), *judges.given(size, device)]
                if len(own) != len(given):  # whether any token was drawn
                    own = [each.clone() for each in given]
                    found, replay = GraphReplayer()(lambda run=judges.run, own=own: run(*own))
                for inner, outer in zip(own, given, strict=True):
                    inner.copy_(outer)
                replay()
                for row, read in enumerate(judges.verdicts(found)):
                    assert (read is None) == (counts[row] is None)
                    if read is None:
                        continue
                    expected, near, far = texts[row]
                    assert read() == expected
                    if not sampling.greedy:
                        assert near.share() == far.share()
                        assert near.ahead(2, coins=True) == far.ahead(2, coins=True)


def test_logits_that_are_no_numbers_are_named() -> None:
    draft, logits = case(2, Sampling(temperature=1), 0)
    logits[2, 5] = float("nan")
    judge = Judge.of(make("verifier", "token"), draft, Sampling(temperature=1), SampledChance(b""))
    judges = Judges.of([judge], 3)
    assert judges is not None
    with accelerator() as device:
        found = judges.run(logits[None].to(device), *judges.given(3, device))
        (read,) = judges.verdicts(found)
        assert read is not None
        with pytest.raises(TargetError, match=r"^the target gave logits with NaN"):
            read()
