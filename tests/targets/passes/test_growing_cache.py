"""Caches grow by doubling, roll back without a copy, and hold what transformers' own would."""

from typing import Any

import torch
from transformers import DynamicCache

from outrider.targets.passes.growing_cache import GrowingCache
from outrider.targets.passes.growing_tensor import SPARE


def states(count: int, seed: int) -> tuple[Any, Any]:
    generator = torch.Generator().manual_seed(seed)
    keys, values = torch.randn(2, 2, 3, count, 4, generator=generator)
    return keys, values


def same(cache: Any, other: Any) -> None:
    assert cache.get_seq_length() == other.get_seq_length()
    for layer, right in zip(cache.layers, other.layers, strict=True):
        assert torch.equal(layer.keys, right.keys) and torch.equal(layer.values, right.values)


def test_the_cache_holds_the_entries_of_a_dynamic_cache() -> None:
    cache, other = GrowingCache(), DynamicCache()
    for seed, (count, dropped) in enumerate([(200, 0), (3, 2), (SPARE, 5), (1, 0), (900, 899)]):
        for layer in (0, 1):
            keys, values = cache.update(*states(count, seed), layer)
            right = other.update(*states(count, seed), layer)
            assert torch.equal(keys, right[0]) and torch.equal(values, right[1])
        cache.crop(-dropped)
        other.crop(-dropped)
        same(cache, other)


def test_a_branch_is_kept_in_order() -> None:
    cache, other = GrowingCache(), DynamicCache()
    keys, values = states(7, 1)
    cache.update(keys, values, 0)
    branch = torch.tensor([0, 1, 2, 4, 6])
    other.update(keys[:, :, branch], values[:, :, branch], 0)
    cache.retain_rows(4, [1, 3])
    same(cache, other)
    cache.retain_rows(2, [])
    other.crop(-2)
    same(cache, other)
