"""Drafters stay within the context windows of the target and of their own model."""

from typing import Any

import pytest
import torch
from tiny.drafters import bound, tokens_of
from tiny.models import ENTRIES, build
from tiny.subject import written

from outrider import Sampling, decode
from outrider.drafters.hierarchy import Hierarchy
from outrider.drafters.lookahead_decoding import LookaheadDecoding
from outrider.drafters.small_lm import SmallLM
from outrider.targets.transformers import TransformersTarget
from outrider.testing.tiny_targets import draft_after
from outrider.verifiers.recursive import Candidates
from outrider.verifiers.token import Token

PROMPT = list(range(5, 45))


@pytest.mark.parametrize("name", ["gpt2", "opt", "bert"])
def test_questions_end_where_the_window_does(name: str) -> None:
    model = build(ENTRIES[name])  # with 64 positions, which the text reaches
    right = written(model, PROMPT)
    rounds = list(
        decode(
            TransformersTarget(model),
            LookaheadDecoding(window=6, ngram=4),
            Candidates(),
            PROMPT,
            gamma=3,
            budget=15,
            max_new_tokens=24,
        )
    )
    assert tokens_of(rounds) == right


def shorten(model: Any) -> None:
    """Leaves a GPT-2 only the first 48 of its positions."""
    model.transformer.wpe.weight = torch.nn.Parameter(model.transformer.wpe.weight[:48])
    model.config.max_position_embeddings = 48


@pytest.mark.parametrize(
    "make", [SmallLM, lambda model: Hierarchy(model=model)], ids=["alone", "hierarchy"]
)
def test_a_model_with_a_shorter_window_drafts_while_the_text_fits(make: Any) -> None:
    model, small = build(ENTRIES["gpt2"]), build(ENTRIES["gpt2"])
    shorten(small)
    right = written(model, PROMPT)
    rounds = list(
        decode(TransformersTarget(model), make(small), Token(), PROMPT, gamma=4, max_new_tokens=24)
    )
    assert tokens_of(rounds) == right
    assert rounds[0].accepted == 4
    assert all(round.drafted == 0 for round in rounds[3:])


@pytest.mark.parametrize("name", ["gpt2", "llama (LongRoPE)"])
def test_the_last_position_of_a_window_is_used(name: str) -> None:
    """Of 48 positions; those of LongRoPE are the ones of its original window."""
    target, small = TransformersTarget(build(ENTRIES["gpt2"])), build(ENTRIES[name])
    if name == "gpt2":
        shorten(small)
    drafter = bound(SmallLM(small), target)
    for length, drafted in ((45, 4), (47, 2), (48, 1), (49, 0)):
        text = [*PROMPT, *range(5, 14)][:length]
        assert len(draft_after(drafter, target, text, 4, sampling=Sampling())) == drafted
