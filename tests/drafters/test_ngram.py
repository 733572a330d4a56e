"""N-gram drafters keep the contract, wherever their counts come from."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny.drafters import bound

from outrider import Sampling
from outrider.drafters.ngram import NGram, bigram
from outrider.drafters.parts.texts.ngrams import NGramTable, log_distribution
from outrider.targets.tabular import TabularTarget
from outrider.testing.tiny_targets import draft_after

SAMPLED = Sampling(temperature=1.0)


@pytest.fixture
def target(words: Any) -> TabularTarget:
    table = TabularTarget(31)
    table.tokenizer = words
    table.offers = frozenset({"tokenizer"})
    return table


def probs(drafter: NGram, target: TabularTarget, history: list[int]) -> list[Any]:
    drafter.bind(target)
    return list(draft_after(drafter, target, history, 2).probs)


def test_a_text_file_is_counted(tmp_path: Path, target: TabularTarget, words: Any) -> None:
    text = "the cat sat on the mat and the dog sat on the cat"
    (tmp_path / "text.txt").write_text(text)
    drafter = bigram(counts=str(tmp_path / "text.txt"))
    assert drafter.needs == {"tokenizer"}
    table = NGramTable.fit([words.encode(text)], 2, 31)
    distribution = probs(drafter, target, words.encode("a cat"))[0]
    np.testing.assert_allclose(
        distribution, np.exp(log_distribution(table, words.encode("cat"))), rtol=1e-5
    )
    assert int(distribution.argmax()) == words.encode("sat")[0]


def test_a_data_set_is_counted_turn_by_turn(
    tmp_path: Path, target: TabularTarget, words: Any
) -> None:
    lines = [
        {"question_id": 1, "category": "x", "turns": ["the cat", "the dog"]},
        {"question_id": 2, "category": "x", "turns": ["the dog"]},
    ]
    (tmp_path / "data.jsonl").write_text("\n".join(map(json.dumps, lines)))
    distribution = probs(bigram(counts=str(tmp_path / "data.jsonl")), target, words.encode("the"))[
        0
    ]
    assert int(distribution.argmax()) == words.encode("dog")[0]


def test_a_fitted_table_is_saved_and_loaded(
    tmp_path: Path, target: TabularTarget, words: Any
) -> None:
    (tmp_path / "text.txt").write_text("the cat sat on the mat . the cat ran")
    saved = str(tmp_path / "table.safetensors")
    fitted = bound(bigram(order=3, counts=str(tmp_path / "text.txt"), save=saved), target)
    loaded = bigram(order=3, counts=saved)
    assert not loaded.needs
    for counted, read in zip(
        probs(fitted, target, words.encode("on the")),
        probs(loaded, target, words.encode("on the")),
        strict=True,
    ):
        torch.testing.assert_close(counted, read)
    assert len(probs(bigram(order=2, counts=saved), target, [2])) == 2


def test_the_same_target_is_not_counted_twice(
    tmp_path: Path, target: TabularTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "text.txt").write_text("the cat")
    drafter = bound(bigram(counts=str(tmp_path / "text.txt")), target)
    monkeypatch.setattr(NGramTable, "fit", lambda *_: pytest.fail("fitted again"))
    drafter.bind(target)
