"""Prompt lookup finds what a search through the whole text finds, without the search."""

import random
from collections.abc import Sequence

import pytest
import torch
from tiny.pens import new_pen

from outrider import Constraint, Context, Sampling, Tokens
from outrider.contract.constraint import Guide
from outrider.drafters.prompt_lookup import PromptLookup


def draft(drafter: PromptLookup, tokens: Tokens, gamma: int) -> list[int]:
    pen = new_pen(sampling=Sampling(), vocab_size=10**6, gamma=gamma)
    drafter.propose(Context(tokens), pen)
    written = pen.sheet.finish()
    assert all(probs is None for probs in written.probs)
    return list(written.tokens)


def searched(text: list[int], gamma: int, max_n: int, min_n: int, newest: bool) -> list[int]:
    """Looks at every position, longest match first; a copy that reaches the end reads itself."""
    for n in range(max_n, min_n - 1, -1):
        ends = [end for end in range(n, len(text)) if text[end - n : end] == text[-n:]]
        if ends and n < len(text):
            start = max(ends) if newest else min(ends)
            grown = list(text)
            for step in range(gamma):
                grown.append(grown[start + step])
            return grown[len(text) :]
    return []


@pytest.mark.parametrize("newest", [True, False])
@pytest.mark.parametrize(
    ("max_n", "min_n"),
    [(1, 1), (3, 1), (3, 2), (5, 4), (8, 1), (14, 2), (12, 11), (40, 9)],
)
def test_the_index_finds_the_matches_of_a_search(max_n: int, min_n: int, newest: bool) -> None:
    draw = random.Random(0)
    drafter = PromptLookup(max_n, min_n, newest)
    text: list[int] = []
    for _ in range(300):
        text = text[: draw.randrange(len(text) + 1)] if draw.random() < 0.1 else list(text)
        text += [draw.randrange(3) for _ in range(draw.randrange(1, 5))]
        text += text[:60] if draw.random() < 0.1 else []  # for long matches
        assert draft(drafter, Tokens(text), 4) == searched(text, 4, max_n, min_n, newest)


class Without(Constraint):
    """Forbids a token."""

    def __init__(self, token: int) -> None:
        self._token = token

    def logits(self, ids: Sequence[int], logits: torch.Tensor) -> torch.Tensor:
        return logits.index_fill(0, torch.tensor(self._token), -torch.inf)


def test_a_copy_ends_at_a_token_that_a_constraint_forbids() -> None:
    text = [1, 2, 3, 1, 2, 3, 1]
    pen = new_pen(sampling=Sampling(), gamma=4, guide=Guide(Without(3), text))
    PromptLookup().propose(Context(Tokens(text)), pen)
    assert pen.sheet.finish().tokens == (2,)
