"""Lookahead decoding: n-grams that the model itself has guessed; a pool keeps the newest."""

from typing import Any

import pytest
import torch

from outrider import Context, Draft, Sampling, Tokens, decode
from outrider.drafters.lookahead_decoding import LookaheadDecoding
from outrider.targets.tabular import TabularTarget
from outrider.targets.transformers import TransformersTarget
from outrider.testing.tiny_targets import draft_after, write_draft
from outrider.verifiers.recursive import Candidates

SAMPLED = Sampling(temperature=1.0)


def pool(drafter: LookaheadDecoding) -> dict[int, list[tuple[int, ...]]]:
    return drafter._pool


def rows(drafter: LookaheadDecoding) -> list[list[int]]:
    return drafter._rows


def test_each_column_holds_the_models_tokens_after_its_own_guesses(
    llama: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compares the pool's n-grams with a plain pass over the text, the chain and the column."""
    monkeypatch.setattr(LookaheadDecoding, "open", lambda drafter: drafter)  # to look into it
    model = llama().double()
    target = TransformersTarget(model)
    drafter = LookaheadDecoding(window=3, ngram=3)
    text = [5, 9, 2, 7]
    rounds = decode(target, drafter, Candidates(), text, gamma=2, budget=10, max_new_tokens=20)
    for round in rounds:
        # What the next round will ask, from the state after this one: rows, newest last.
        chain, column = rows(drafter)[0][:], [row[:] for row in rows(drafter)]
        text = [*text, *round.tokens]
        try:
            following = next(rounds)
        except StopIteration:
            break
        for j in range(3):
            path = [*chain[: j + 1], *(row[j] for row in column[1:])]
            with torch.no_grad():
                says = int(model(torch.tensor([text + path])).logits[0, -1].argmax())
            ngram = (*(row[j] for row in column[1:]), says)
            assert ngram in pool(drafter)[chain[j]]
        text = [*text, *following.tokens]


def test_the_pool_becomes_a_tree_with_shared_beginnings() -> None:
    drafter = LookaheadDecoding(window=2, ngram=3)
    target = TabularTarget(6)
    draft_after(drafter, target, [1, 2], 2)
    pool(drafter).update({4: [(0, 1), (0, 2), (3, 1)]})
    draft = draft_after(drafter, target, [1, 2, 4], 2)
    assert draft.tokens == (3, 1, 0, 2, 1)
    assert draft.parents == (-1, 0, -1, 2, 2)
    assert pool(drafter)  # a longer text goes on
    draft_after(drafter, target, [5], 2)
    assert not pool(drafter)  # another one does not


def test_the_same_prompt_again_is_another_text() -> None:
    drafter, target = LookaheadDecoding(window=2, ngram=3), TabularTarget(6)
    prompt = Context(Tokens([1, 2, 4]))
    write_draft(drafter, target, prompt, gamma=2, sampling=SAMPLED)
    pool(drafter).update({4: [(0, 1)]})  # as after a round
    assert not len(write_draft(drafter, target, prompt, gamma=2, sampling=SAMPLED))


def test_a_pool_keeps_the_newest() -> None:
    drafter = LookaheadDecoding(window=1, ngram=2, candidates=2)
    rows(drafter).append([4])
    for token in (0, 1, 2, 1):
        logits = torch.zeros(1, 6)
        logits[0, token] = 1
        rows(drafter)[:] = [[4]]
        drafter.answer(Draft(), logits)
    assert pool(drafter) == {4: [(2,), (1,)]}
