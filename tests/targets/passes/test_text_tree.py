"""The logits after each of many texts are those after that text alone."""

import random
from typing import Any

import pytest
import torch

from outrider.targets.passes import cached_model, text_tree
from outrider.targets.passes.cached_model import CachedModel
from outrider.targets.passes.text_tree import TextTree


def alone(model: Any, text: list[int]) -> torch.Tensor:
    with torch.no_grad():
        return model(torch.tensor([text])).logits[0, -1]


@pytest.mark.parametrize("idle", [0, 6, 1000])
@pytest.mark.parametrize("ready", [False, True])
def test_every_text_is_scored_as_if_alone(
    llama: Any, monkeypatch: pytest.MonkeyPatch, idle: int, ready: bool
) -> None:
    monkeypatch.setattr(text_tree, "IDLE", idle)
    model, draw, root = llama().double(), random.Random(idle), [3, 4, 5]
    cached = CachedModel(model)
    if ready:
        cached.feed(root, 1)
    tree = TextTree(cached, root)
    paths = [(7,)] if ready else [()]
    for _ in range(25):
        logits = tree.logits(paths)
        assert len(logits) == len(paths)
        for path, row in zip(paths, logits, strict=True):
            expected = alone(model, [*root, *path])
            torch.testing.assert_close(row, expected, rtol=1e-9, atol=1e-9)
        # Some paths grow by one or two tokens; sometimes an old one comes back.
        grown = [draw.choice(paths) for _ in range(4)]
        paths = [(*path, *draw.choices(range(6), k=draw.choice((1, 2)))) for path in grown]
        paths += draw.sample(grown, 1) if draw.random() < 0.3 else []
        if draw.random() < 0.1:
            paths = [(draw.randrange(6),), *paths]


def test_each_token_is_read_once(llama: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    fed: list[int] = []
    feed = CachedModel.feed

    def counted(self: CachedModel, tokens: Any, rows: int, **options: Any) -> Any:
        fed.append(len(tokens))
        return feed(self, tokens, rows, **options)

    monkeypatch.setattr(CachedModel, "feed", counted)
    tree = TextTree(CachedModel(llama()), [3, 4])
    tree.logits([(5,), (6,), (5, 7), (5, 7, 8)])
    tree.logits([(5, 7, 9), (5, 7, 8)])
    tree.logits([(5, 7, 9)])
    assert fed == [2 + 4, 1]


def test_a_long_root_is_read_ahead(llama: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cached_model, "PART", 4)
    model, root = llama().double(), [3, 4, 5, 6, 7, 8, 9, 10, 11]
    cached = CachedModel(model)
    tree = TextTree(cached, root)
    paths = [(), (7,), (7, 2), (4, 5, 6)]
    for _ in range(2):
        for path, row in zip(paths, tree.logits(paths), strict=True):
            torch.testing.assert_close(row, alone(model, [*root, *path]), rtol=1e-9, atol=1e-9)
        paths = [(*path, 8) for path in paths[1:]]


def test_tokens_that_no_text_uses_are_taken_out(llama: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(text_tree, "IDLE", 0)
    cached = CachedModel(llama())
    tree = TextTree(cached, [3, 4])
    tree.logits([(token,) for token in range(8)])
    assert cached.length == 2 + 8
    tree.logits([(5, 7)])
    assert cached.length == 2 + 2
