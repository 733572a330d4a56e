"""The proposer as vLLM calls it: rows move, pause and end, drafters fail."""

import json
import logging
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tiny.drafters import Watches

from outrider import ConfigError, Context, Drafter, Pen
from outrider.drafters.eagle import Eagle
from outrider.drafters.ngram import bigram
from outrider.drafters.parts.texts.ngrams import NGramTable
from outrider.drafters.prompt_lookup import PromptLookup
from outrider.extras.serving.vllm import PATIENCE, VARIABLE, OutriderProposer

LONGEST = 32


def config(gamma: int = 3, vocab_size: int = 50) -> Any:
    """Returns what Outrider reads of vLLM's config."""
    return SimpleNamespace(
        model_config=SimpleNamespace(
            max_model_len=LONGEST, get_vocab_size=lambda: vocab_size, skip_tokenizer_init=True
        ),
        speculative_config=SimpleNamespace(num_speculative_tokens=gamma),
    )


def proposer(make: Any, gamma: int = 3) -> OutriderProposer:
    return OutriderProposer(config(gamma), make)


def call(served: OutriderProposer, texts: list[list[int] | None]) -> list[list[int]]:
    """Returns the drafts for rows with these texts; None is a row whose prompt is being read."""
    ids = np.zeros((len(texts), LONGEST), dtype=np.int32)
    lengths = np.zeros(len(texts), dtype=np.int32)
    for row, text in enumerate(texts):
        lengths[row] = len(text or [])
        ids[row, : lengths[row]] = text or []
    sampled = [[text[-1]] if text else [] for text in texts]
    return served.propose(sampled, lengths, ids, slot_mappings=None)


def test_each_row_has_the_draft_of_its_own_text() -> None:
    served = proposer(PromptLookup)
    drafts = call(served, [[1, 2, 3, 1, 2], None, [7, 8, 7]])
    assert drafts == [[3, 1, 2], [], [8, 7, 8]]
    assert call(served, []) == []


class Counting(Drafter):
    """Drafts the number of the call, and remembers the texts that it was asked about."""

    made: list["Counting"] = []  # noqa: RUF012

    def __init__(self) -> None:
        self.seen: list[list[int]] = []
        self.made.append(self)

    def propose(self, context: Context, pen: Pen) -> None:
        self.seen.append(context.tokens[:])
        pen.write(len(self.seen) % pen.vocab_size)


@pytest.fixture
def made() -> list[Counting]:
    Counting.made = []
    return Counting.made


def test_requests_with_equal_texts_do_not_share_a_drafter(made: list[Counting]) -> None:
    served = proposer(Counting)
    assert call(served, [[1, 2], [1, 2]]) == [[1], [1]]
    assert call(served, [[1, 2, 9], [1, 2, 8]]) == [[2], [2]]
    assert [drafter.seen[-1] for drafter in made] == [[1, 2, 9], [1, 2, 8]]


def test_a_table_is_read_once_however_many_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[Any] = []
    load = NGramTable.load
    monkeypatch.setattr(NGramTable, "load", lambda path: loaded.append(path) or load(path))
    made = partial(bigram, counts="smollm2")
    served = OutriderProposer(config(2, vocab_size=49152), made)
    for first in range(4):
        call(served, [[first, 28]])
        for _ in range(PATIENCE):
            call(served, [])
    assert len(loaded) == 1


def test_a_draft_ends_where_the_model_does() -> None:
    served = proposer(PromptLookup, gamma=5)
    assert call(served, [[1] * (LONGEST - 3)]) == [[1, 1]]
    assert call(served, [[1] * (LONGEST - 1)]) == [[]]
    assert call(served, [[1] * LONGEST]) == [[]]


class Fragile(Drafter):
    """Fails on a text that begins with 13, and ever after."""

    broken = False

    def propose(self, context: Context, pen: Pen) -> None:
        self.broken = self.broken or context.tokens[0] == 13
        if self.broken:
            raise RuntimeError("bad luck")
        pen.write(4)


def test_a_failure_costs_only_that_request_its_drafts(caplog: Any) -> None:
    served = proposer(Fragile)
    unmade = proposer(partial(next, iter([PromptLookup()])))
    with caplog.at_level(logging.ERROR, logger="vllm.outrider"):
        assert call(served, [[13, 2], [1, 2]]) == [[], [4]]
        assert call(served, [[13, 2, 3], [1, 2, 3]]) == [[], [4]]
        assert call(unmade, [[1, 2, 1], [3, 3]]) == [[2, 1, 2], []]
    assert caplog.text.count("drafter Fragile of no plugin failed") == 1
    assert "bad luck" in caplog.text
    assert "failed: this request goes on without drafts" in caplog.text
    for _ in range(PATIENCE):
        call(served, [])
    assert call(served, [[1, 9], [13]]) == [[4], []]  # no drafter that failed is lent again
    assert call(served, [[1, 9, 2], [2]]) == [[4], [4]]


@pytest.mark.parametrize(
    "make", [partial(Eagle, path="untrained"), partial(bigram, tree="2x1"), Watches]
)
def test_drafters_that_can_not_run_in_vllm_are_refused_at_once(make: Any) -> None:
    with pytest.raises(ConfigError, match="can't go into vLLM: expected one that writes chains"):
        proposer(make)


def test_the_drafter_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    node = {"_target_": "outrider.drafters.prompt_lookup.PromptLookup", "max_n": 1}
    monkeypatch.setenv(VARIABLE, json.dumps(node))
    served = OutriderProposer(config())
    assert call(served, [[1, 2, 3, 1]]) == [[2, 3, 1]]
    monkeypatch.delenv(VARIABLE)
    with pytest.raises(ConfigError, match="OUTRIDER_DRAFTER: expected a drafter's config"):
        OutriderProposer(config())


def test_rows_that_move_pause_and_end(made: list[Counting]) -> None:
    served = proposer(Counting)
    assert call(served, [[1], [2]]) == [[1], [1]]
    assert call(served, [[2, 5], [1, 5]]) == [[2], [2]]
    for turn in range(1, PATIENCE):
        assert call(served, [[1, 5]]) == [[2 + turn]]
    assert call(served, [[2, 5, 6]]) == [[3]]  # it was missing, but not for too long
    for _ in range(PATIENCE):
        call(served, [])
    assert call(served, [[1, 5, 6], [3]]) in ([[PATIENCE + 2], [4]], [[4], [PATIENCE + 2]])
    assert len(made) == 2
