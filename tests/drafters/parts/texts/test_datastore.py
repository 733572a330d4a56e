"""The data store finds exactly what a search through the texts by hand finds."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from outrider import ConfigError
from outrider.drafters.parts.texts.datastore import END, DataStore, write_store
from outrider.targets.tabular import TabularTarget
from outrider.targets.transformers import TransformersTarget

TARGET = TabularTarget(4)


def random_texts(seed: int, size: int) -> list[list[int]]:
    draw = random.Random(seed)
    return [[draw.randrange(size) for _ in range(draw.randrange(12))] for _ in range(6)]


@pytest.mark.parametrize("size", [1, 2, 4])
def test_the_store_finds_the_matches_of_a_search_by_hand(size: int, tmp_path: Path) -> None:
    for seed in range(10):
        texts = random_texts(seed, size)
        write_store(tmp_path, texts, TARGET)
        store = DataStore.open(tmp_path, TARGET)
        all_tokens = [token for text in texts for token in (*text, END)]
        draw = random.Random(seed)
        for _ in range(20):
            text = [draw.randrange(size) for _ in range(draw.randrange(1, 7))]
            ends = [text[-length:] for length in range(2, 5) if length <= len(text)]
            places = {
                tuple(end): [
                    start + len(end)
                    for start in range(len(all_tokens))
                    if all_tokens[start : start + len(end)] == end
                ]
                for end in ends
            }
            for end in ends:
                assert sorted(store.find(end, 999).tolist()) == places[tuple(end)]
            right = next((places[tuple(end)] for end in ends[::-1] if places[tuple(end)]), [])
            match = store.longest(text, range(2, 5), 999)
            assert sorted(match.tolist()) == right
            if right:
                behind = [all_tokens[position] for position in right]
                counts = {token: behind.count(token) for token in set(behind) - {END}}
                order = sorted(counts, key=lambda token, seen=counts: (-seen[token], token))
                groups = store.following(match)
                assert [token for token, _ in groups] == order
                for token, group in groups:
                    assert sorted(group.tolist()) == [
                        position for position in right if all_tokens[position] == token
                    ]


def test_of_many_occurrences_some_are_taken_at_even_distances(tmp_path: Path) -> None:
    write_store(tmp_path, [[1, 2] * 10], TARGET)
    store = DataStore.open(tmp_path, TARGET)
    every = store.find([1, 2], 99).tolist()
    assert len(every) == 10
    assert store.find([1, 2], 5).tolist() == every[::2]


def test_a_store_of_another_tokenizer_is_refused(llama: Any, words: Any, tmp_path: Path) -> None:
    target = TransformersTarget(llama(), words)
    write_store(tmp_path, [[2, 3]], target)
    DataStore.open(tmp_path, target)
    with pytest.raises(ConfigError, match="its vocabulary has 31 tokens, the target's 4"):
        DataStore.open(tmp_path, TARGET)
    facts = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(facts | {"tokenizer": "feed"}))
    with pytest.raises(ConfigError, match=r"cut by another tokenizer than the target's .*feed"):
        DataStore.open(tmp_path, target)
