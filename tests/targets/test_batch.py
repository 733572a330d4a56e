"""Texts written at once are those written one by one."""

from typing import Any

import pytest
import torch

from outrider import Chance, Sampling, TargetError
from outrider.contract.chance import SampledChance
from outrider.contract.target import Target
from outrider.targets import batch
from outrider.targets.tabular import TabularTarget
from outrider.targets.transformers import TransformersTarget

PROMPTS = [[3, 4, 5], [9], [7, 7, 2, 20, 11, 6, 3], [5, 6]]
SETTINGS = [Sampling(), Sampling(temperature=1.0), Sampling(temperature=0.8, top_k=5, top_p=0.9)]


def chances() -> list[Chance]:
    return [SampledChance.seeded(seed) for seed in range(len(PROMPTS))]


@pytest.mark.parametrize("sampling", SETTINGS)
def test_a_batch_writes_what_one_by_one_writes(llama: Any, sampling: Sampling) -> None:
    target = TransformersTarget(llama().double())
    texts = target.write(PROMPTS, sampling, chances(), 25)
    assert texts == Target.write(target, PROMPTS, sampling, chances(), 25)
    assert any(text[-1] == 1 for text in texts) or all(len(text) == 25 for text in texts)


@pytest.mark.parametrize("width", [1, 2, 3])
def test_texts_join_as_others_end(width: int, llama: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    target = TransformersTarget(llama().double())
    target.eos = frozenset(range(8))  # so that texts end at different times
    prompts = [*PROMPTS, [9, 8] * 9, [12], [20, 10, 15]]
    chances: list[Chance] = [SampledChance.seeded(seed) for seed in range(len(prompts))]
    sampling = Sampling(temperature=1.0)
    widths, known = [], batch.score_sessions

    def score_sessions(sessions: Any, drafts: Any) -> Any:
        widths.append(len(sessions))
        return known(sessions, drafts)

    monkeypatch.setattr(batch, "score_sessions", score_sessions)
    monkeypatch.setattr(batch, "WIDTH", width)
    texts = target.write(prompts, sampling, chances, 12)
    lengths = [len(text) for text in texts]
    assert len(set(lengths)) > 2
    assert max(widths) == width and sum(widths) == sum(lengths)
    assert widths == sorted(widths, reverse=True)  # a place is empty only when no prompt waits
    chances = [SampledChance.seeded(seed) for seed in range(len(prompts))]
    assert texts == Target.write(target, prompts, sampling, chances, 12)


def test_an_end_takes_one_text_out_of_the_batch(llama: Any) -> None:
    target = TransformersTarget(llama().double())
    target.eos = frozenset()
    free = target.write(PROMPTS, Sampling(), chances(), 20)
    target.eos = frozenset({free[2][4]})
    ended = target.write(PROMPTS, Sampling(), chances(), 20)
    for text, before in zip(ended, free, strict=True):
        end = next((i + 1 for i, token in enumerate(before) if token in target.eos), 20)
        assert text == before[:end]
    assert len(ended[2]) <= 5


def test_no_text_outgrows_the_context_window(llama: Any) -> None:
    target = TransformersTarget(llama(max_position_embeddings=10).double())
    target.eos = frozenset()
    texts = target.write(PROMPTS, Sampling(temperature=1.0), chances(), 25)
    assert [len(prompt) + len(text) for prompt, text in zip(PROMPTS, texts, strict=True)] == [
        10
    ] * 4
    assert texts == Target.write(target, PROMPTS, Sampling(temperature=1.0), chances(), 25)


def test_a_table_writes_too() -> None:
    texts = TabularTarget(6).write([[0], [1, 2]], Sampling(temperature=1.0), chances()[:2], 7)
    assert [len(text) for text in texts] == [7, 7]


def test_logits_that_are_no_numbers_are_an_error(llama: Any) -> None:
    model = llama()
    with torch.no_grad():
        model.lm_head.weight.fill_(float("nan"))
    with pytest.raises(TargetError, match="NaN"):
        TransformersTarget(model).write(PROMPTS, Sampling(), chances(), 3)


def test_the_fingerprint_is_that_of_the_weights(llama: Any) -> None:
    one, same, other = (TransformersTarget(llama(seed)) for seed in (0, 0, 1))
    assert one.fingerprint() == same.fingerprint() != other.fingerprint()
    assert TabularTarget(6).fingerprint() is None
