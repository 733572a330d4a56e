"""Caches grow by doubling, roll back without a copy, and hold what transformers' own would."""

from typing import Any

import pytest
import torch
from transformers import DynamicCache

from outrider.runtime.cache import FIRST, growing, retain_rows


def states(count: int, seed: int) -> tuple[Any, Any]:
    generator = torch.Generator().manual_seed(seed)
    keys, values = torch.randn(2, 2, 3, count, 4, generator=generator)
    return keys, values


def same(cache: Any, other: Any) -> None:
    assert cache.get_seq_length() == other.get_seq_length()
    for mine, theirs in zip(cache.layers, other.layers, strict=True):
        assert torch.equal(mine.keys, theirs.keys) and torch.equal(mine.values, theirs.values)


def test_it_holds_what_a_dynamic_cache_holds() -> None:
    cache, other = growing(), DynamicCache()
    for seed, (count, dropped) in enumerate([(200, 0), (3, 2), (FIRST, 5), (1, 0), (900, 899)]):
        for layer in (0, 1):
            found, right = (each.update(*states(count, seed), layer) for each in (cache, other))
            assert torch.equal(found[0], right[0]) and torch.equal(found[1], right[1])
        for each in (cache, other):
            each.crop(-dropped)
        same(cache, other)


def test_a_branch_is_kept_in_order() -> None:
    cache, other = growing(), DynamicCache()
    keys, values = states(7, 1)
    cache.update(keys, values, 0)
    kept = torch.tensor([0, 1, 2, 4, 6])
    other.update(keys[:, :, kept], values[:, :, kept], 0)
    retain_rows(cache, 4, [1, 3])
    same(cache, other)
    retain_rows(cache, 2, [])
    other.crop(-2)
    same(cache, other)


def test_texts_leave_a_batch() -> None:
    cache, other = growing(), DynamicCache()
    for each in (cache, other):
        each.update(*states(5, 1), 0)
        each.batch_select_indices(torch.tensor([1]))
    same(cache, other)
    new = [each[1:] for each in states(2, 2)]
    for each in (cache, other):
        each.update(*new, 0)
    same(cache, other)


@pytest.mark.parametrize("prompt", [10, 5 * FIRST])
def test_a_round_moves_nothing_that_is_there(prompt: int) -> None:
    cache = growing()
    cache.update(*states(prompt, 1), 0)
    before = cache.layers[0].keys.data_ptr()
    for seed in range(20):
        cache.update(*states(5, seed), 0)
        cache.crop(-4)
    assert cache.layers[0].keys.data_ptr() == before
