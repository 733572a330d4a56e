"""Distributions and running counts are those of counting by hand."""

import random
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from outrider import ConfigError, Tokens
from outrider.drafters.parts.texts.ngrams import Counts, NGramTable, RunningCounts, log_distribution

V = 5


def texts(seed: int) -> list[list[int]]:
    draw = random.Random(seed)
    return [[draw.randrange(V) for _ in range(draw.randrange(30))] for _ in range(4)]


def counted(corpus: list[list[int]], context: tuple[int, ...]) -> dict[int, int]:
    """Returns what followed `context`, by looking at every position."""
    n = len(context)
    following = Counter(
        text[start + n]
        for text in corpus
        for start in range(len(text) - n)
        if tuple(text[start : start + n]) == context
    )
    return dict(following)


def slow_distribution(corpus: list[list[int]], history: list[int], order: int) -> list[float]:
    """Returns Witten and Bell's interpolation, as in their formula."""
    probs = [1 / V] * V
    for length in range(min(order - 1, len(history)) + 1):
        seen = counted(corpus, tuple(history[len(history) - length :]))
        if not seen:
            break
        kinds, total = len(seen), sum(seen.values())
        probs = [(seen.get(x, 0) + kinds * probs[x]) / (total + kinds) for x in range(V)]
    return probs


def followed(counts: Counts, context: tuple[int, ...]) -> dict[int, int]:
    tokens, seen = counts.continuations(context)
    return dict(zip(tokens.tolist(), seen.tolist(), strict=True))


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_the_distribution_is_that_of_witten_and_bell(order: int) -> None:
    for seed in range(20):
        corpus = texts(seed)
        running = RunningCounts(V, order)
        running.follow(Tokens(corpus[0]))
        draw = random.Random(seed)
        history = [draw.randrange(V) for _ in range(draw.randrange(5))]
        for counts, source in ((NGramTable.fit(corpus, order, V), corpus), (running, corpus[:1])):
            probs = np.exp(log_distribution(counts, history))
            np.testing.assert_allclose(probs, slow_distribution(source, history, order), atol=1e-12)
            assert probs.sum() == pytest.approx(1, abs=1e-12)


def test_running_counts_follow_a_text_back_and_forth() -> None:
    draw = random.Random(0)
    running = RunningCounts(V, 3)
    text: list[int] = []
    for _ in range(60):
        text = text[: draw.randrange(len(text) + 1)] + [draw.randrange(V) for _ in range(6)]
        running.follow(Tokens(list(text)))
        for context in ((), (text[-1],), tuple(text[-3:-1]), (0, 1)):
            assert followed(running, context) == counted([text], context)


def test_a_file_that_was_cut_short_holds_no_table(tmp_path: Path) -> None:
    path = tmp_path / "table.safetensors"
    NGramTable.fit(texts(1), 2, V).save(path)
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(ConfigError, match="can't be read"):
        NGramTable.load(path)
    save_file({"x": torch.zeros(1)}, path)
    with pytest.raises(ConfigError, match="expected a table of n-gram counts"):
        NGramTable.load(path)
