"""Texts written at once are those written one by one."""

import itertools
from functools import partial
from itertools import islice
from typing import Any

import pytest
import torch

from outrider import Chance, Sampling, TargetError
from outrider.contract.chance import SampledChance
from outrider.decoding.batches.batch_target import BatchTarget, Turn, batched
from outrider.targets.batches import writing
from outrider.targets.batches.batch_rows import PaddedBatch
from outrider.targets.transformers import TransformersTarget

PROMPTS = [[3, 4, 5], [9], [7, 7, 2, 20, 11, 6, 3], [5, 6]]


def chances() -> list[Chance]:
    return [SampledChance.seeded(seed) for seed in range(len(PROMPTS))]


@pytest.mark.parametrize("width", [1, 2, 3])
def test_texts_join_as_others_end(width: int, llama: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    target = TransformersTarget(llama().double())
    target.eos = frozenset(range(8))  # so that texts end at different times
    prompts = [*PROMPTS, [9, 8] * 9, [12], [20, 10, 15]]
    chances: list[Chance] = [SampledChance.seeded(seed) for seed in range(len(prompts))]
    sampling = Sampling(temperature=1.0)
    widths, known = [], writing.score_sessions

    def score_sessions(sessions: Any, drafts: Any) -> Any:
        widths.append(len(sessions))
        return known(sessions, drafts)

    monkeypatch.setattr(writing, "score_sessions", score_sessions)
    monkeypatch.setattr(writing, "WIDTH", width)
    texts = batched(target).write(prompts, sampling, chances, 12)
    lengths = [len(text) for text in texts]
    assert len(set(lengths)) > 2
    assert max(widths) == width and sum(widths) == sum(lengths)
    assert widths == sorted(widths, reverse=True)  # a place is empty only when no prompt waits
    chances = [SampledChance.seeded(seed) for seed in range(len(prompts))]
    assert texts == BatchTarget.write(batched(target), prompts, sampling, chances, 12)


def conversations(sampling: Sampling, after: list[int]) -> list[list[Turn]]:
    return [
        [Turn(prompt, Sampling(), chance, 6), Turn(after, sampling, other, 9)]
        for prompt, chance, other in zip(PROMPTS, chances(), chances()[::-1], strict=True)
    ]


@pytest.mark.parametrize("side_by_side", [True, False])
def test_texts_are_yielded_before_the_last_is_asked_for(
    side_by_side: bool, llama: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "WIDTH", 3)
    target = batched(TransformersTarget(llama().double()))
    endless = (text for _ in itertools.count() for text in conversations(Sampling(), [6, 7, 8]))
    wanted = list(target.write_turns(conversations(Sampling(), [6, 7, 8])))
    write_turns = target.write_turns if side_by_side else partial(BatchTarget.write_turns, target)
    assert list(islice(write_turns(endless), 12)) == wanted * 3


def test_no_turn_is_read_twice(llama: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    target = TransformersTarget(llama().double())
    target.eos = frozenset()
    counts: list[int] = []
    feed = PaddedBatch.feed

    def counted(self: PaddedBatch, numbers: Any, pending: Any, *others: Any, **options: Any) -> Any:
        counts.append(sum(map(len, pending)))
        return feed(self, numbers, pending, *others, **options)

    monkeypatch.setattr(PaddedBatch, "feed", counted)
    list(batched(target).write_turns(conversations(Sampling(), [6, 7, 8])))
    assert counts == [sum(map(len, PROMPTS)), *[4] * 5, 4 + 4 * 3, *[4] * 8]


def test_turns_beyond_the_context_window_are_empty(llama: Any) -> None:
    target = TransformersTarget(llama(max_position_embeddings=12).double())
    target.eos = frozenset()
    written = list(batched(target).write_turns(conversations(Sampling(), [6, 7, 8])))
    assert [len(text) for text, _ in written] == [6, 6, 5, 6]
    assert [len(text) for _, text in written] == [0, 2, 0, 1]


def test_logits_that_are_no_numbers_are_an_error(llama: Any) -> None:
    model = llama()
    with torch.no_grad():
        model.lm_head.weight.fill_(float("nan"))
    with pytest.raises(TargetError, match="NaN"):
        batched(TransformersTarget(model)).write(PROMPTS, Sampling(), chances(), 3)
