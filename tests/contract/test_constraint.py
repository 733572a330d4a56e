"""A constraint changes the logits at each position of a draft, given the text before it."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
import torch
from tiny.drafters import tokens_of
from torch import Tensor

from outrider import Constraint, TargetError, decode
from outrider.contract.constraint import AllOf, Guide
from outrider.drafters.random import Random
from outrider.targets.tabular import TabularTarget
from outrider.verifiers.token import Token

TARGET = TabularTarget(3, order=1, seed=2)
PROMPT = [0]


def test_a_guide_that_leaves_nothing_is_named() -> None:
    class Never(Constraint):
        def logits(self, ids: Sequence[int], logits: Tensor) -> Tensor:
            return torch.full_like(logits, float("-inf"))

    with pytest.raises(TargetError, match=r"^Never allows no token at some position"):
        list(decode(TARGET, Random(), Token(), PROMPT, constraint=Never()))


class NoRepeats(Constraint):
    """Forbids the token that came last, and fails if it is asked about a text with a repetition."""

    def logits(self, ids: Sequence[int], logits: Tensor) -> Tensor:
        assert all(one != other for one, other in pairwise(ids))
        return logits.index_fill(0, torch.tensor([ids[-1]]), float("-inf"))


def test_a_constraint_is_asked_about_possible_texts_alone(scripted: Any) -> None:
    text = list(PROMPT)
    for _ in range(12):
        text.append(int(NoRepeats().logits(text, TARGET.logits(text)).argmax()))
    for draft, right in ((text, True), ([0] * 99, False)):
        rounds = list(
            decode(TARGET, scripted(draft), Token(), PROMPT, gamma=3, max_new_tokens=12,
                   constraint=NoRepeats())
        )  # fmt: skip
        assert tokens_of(rounds) == text[1:]
        assert (len(rounds) == 3) == right


class Forces(Constraint):
    def __init__(self, *tokens: int) -> None:
        self.tokens = tokens

    def forced(self, ids: Sequence[int]) -> list[int]:
        return [*self.tokens] if ids[-1] == 0 else []


def test_the_first_of_several_that_forces_tokens_decides() -> None:
    several = AllOf(Constraint(), Forces(1, 2), Forces(2))
    assert Guide(several, [2, 0]).forced() == [1, 2]
    assert Guide(several, [2]).forced() == []
    assert AllOf().forced([0]) == []
