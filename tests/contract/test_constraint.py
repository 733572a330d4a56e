"""A constraint changes the logits at each position of a draft, given the text before it."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
import torch
from tiny.drafters import tokens_of
from torch import Tensor

from outrider import Constraint, Sampling, TargetError, decode, decode_together
from outrider.contract.constraint import AllOf, Guide
from outrider.drafters.random import Random
from outrider.targets.tabular import TabularTarget
from outrider.verifiers.token import Token

TARGET = TabularTarget(3, order=1, seed=2)
PROMPT = [0]


class Until(Constraint):
    def __init__(self, token: int) -> None:
        self.token = token

    def ends(self, ids: Sequence[int]) -> bool:
        return ids[-1] == self.token


def test_the_text_ends_where_the_guide_says(scripted: Any) -> None:
    free = list(decode(TARGET, Random(), Token(), PROMPT, max_new_tokens=20))
    tokens = tokens_of(free)
    last = tokens[1]
    for gamma in (1, 4, 10):
        drafter = scripted([*PROMPT, *tokens])
        rounds = list(
            decode(
                TARGET,
                drafter,
                Token(),
                PROMPT,
                gamma=gamma,
                max_new_tokens=20,
                constraint=Until(last),
            )
        )
        written = tokens_of(rounds)
        assert written == tokens[: tokens.index(last) + 1]
        assert rounds[-1].stop == "constraint"
        assert sum(round.drafted for round in rounds) <= len(written)


def test_each_of_several_texts_has_its_own() -> None:
    constraints = [Until(1), Until(2)]
    texts: dict[int, list[int]] = {0: [], 1: []}
    sampling = Sampling(temperature=1.0, seed=4)
    for number, round in decode_together(
        TARGET,
        Random(),
        Token(),
        [[0], [2]],
        constraints=constraints,
        sampling=sampling,
        max_new_tokens=100,
    ):
        texts[number] += round.tokens
    for number, text in texts.items():
        assert text.index(number + 1) == len(text) - 1


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
