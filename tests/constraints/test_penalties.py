"""Penalties: the penalised distribution exactly, and the texts of transformers."""

import re
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from tiny.exact import assert_follows, texts_by_chance
from transformers import LogitsProcessorList, NoBadWordsLogitsProcessor
from transformers import RepetitionPenaltyLogitsProcessor as Repetition

import outrider
from outrider import ConfigError, Penalties
from outrider.drafters.random import Random
from outrider.targets.tabular import TabularTarget
from outrider.targets.transformers import TransformersTarget

TABLE = TabularTarget(3, order=1, seed=2)
PROMPT = [0, 1]
EVERYTHING: dict[str, Any] = {
    "repetition_penalty": 1.7, "presence_penalty": 0.6, "frequency_penalty": 0.4,
    "logit_bias": {1: 0.9}, "bad_words": [[2, 2]],
}  # fmt: skip


def penalised(ids: Sequence[int], logits: torch.Tensor) -> list[float]:
    """Returns the logits after `ids` with all of the above, one number at a time."""
    changed = logits.tolist()
    changed[1] += 0.9
    if ids[-1] == 2:
        changed[2] = float("-inf")
    for token in range(3):
        if token in ids:
            changed[token] *= 1.7 if changed[token] < 0 else 1 / 1.7
        count = list(ids[len(PROMPT) :]).count(token)
        changed[token] -= 0.4 * count + 0.6 * (count > 0)
    return changed


@pytest.mark.parametrize(
    ("drafter", "rule", "budget"),
    [(Random(), "token", 2), (Random(), "block", 2), (Random(tree="iid:2"), "multi_step", 2)],
)
def test_the_distribution_is_the_penalised_one(drafter: Any, rule: str, budget: int) -> None:
    options = {"budget": budget, "constraint": Penalties(**EVERYTHING)}
    play = texts_by_chance(TABLE, PROMPT, drafter, rule, length=3, **options)

    def logits(text: tuple[int, ...]) -> torch.Tensor:
        before = [*PROMPT, *text]
        return torch.tensor(penalised(before, TABLE.logits(before)), dtype=torch.float64)

    assert_follows(play, logits, 3)


def test_the_logits_are_those_of_transformers() -> None:
    logits, ids = torch.randn(9), [3, 4, 3, 7]
    banned = [[1], [3, 7, 2], [7, 5], [4, 6]]
    processors = LogitsProcessorList([Repetition(1.3), NoBadWordsLogitsProcessor(banned)])
    expected = processors(torch.tensor([ids]), logits[None])[0]
    begun = Penalties(repetition_penalty=1.3, bad_words=banned).begin(TabularTarget(9), ids[:2])
    torch.testing.assert_close(begun.logits(ids, logits), expected)


def test_a_word_is_banned_in_both_of_its_forms(llama: Any, words: Any) -> None:
    target = TransformersTarget(llama(), words)
    begun = Penalties(bad_words=["cat", "the dog"]).begin(target, [2])
    cat, the, dog = (words.convert_tokens_to_ids(word) for word in ("cat", "the", "dog"))
    after_the = begun.logits([2, the], torch.zeros(target.vocab_size))
    assert [token for token, logit in enumerate(after_the) if logit < 0] == [cat, dog]
    assert not (begun.logits([2, 6], torch.zeros(target.vocab_size))[dog] < 0)


def test_half_precision_is_raised_and_its_argument_left_alone() -> None:
    logits = torch.zeros(3, dtype=torch.bfloat16)
    begun = Penalties(logit_bias={"1": 0.001}, bad_words=[[0]]).begin(TABLE, [0])
    penalized = begun.logits([0], logits)
    assert penalized.tolist() == pytest.approx([float("-inf"), 0.001, 0])
    assert not logits.any()


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"logit_bias": {"cat": 1.0}}, "penalties.logit_bias='cat': expected the id of a token"),
        ({"bad_words": ["cat"]}, "penalties.bad_words='cat': expected lists of ids"),
    ],
)
def test_a_value_out_of_range_is_one_line(settings: dict[str, Any], line: str) -> None:
    with pytest.raises(ConfigError, match=f"^{re.escape(line)}"):
        outrider.generate(TABLE, [0], "none", constraint=Penalties(**settings))
