"""Masks: each token sees the text before it, the path to it and itself, and nothing else.

Flex attention reads trees as eager attention does; flash attention has none of them.
"""

import itertools
import random
from pathlib import Path

import pytest
import torch
from tiny.models import ENTRIES, build

from outrider import TargetError
from outrider.contract.draft import ROOT, Draft
from outrider.targets.passes.cached_model import CachedModel
from outrider.targets.passes.masks import FLEX, additive_mask, attention, causal, tree_mask
from outrider.targets.self_test_text import beyond_a_test
from outrider.targets.transformers import TransformersTarget

TREE = (ROOT, ROOT, 0, 1, 2)


@pytest.mark.parametrize("cached", [0, 3])
@pytest.mark.parametrize("pending", [0, 1, 4])
def test_each_token_sees_its_own_past(cached: int, pending: int) -> None:
    draw = random.Random(cached + pending)
    for size, is_chain in itertools.product(range(9), (True, False)):
        parents = tuple(node - 1 if is_chain else draw.randrange(-1, node) for node in range(size))
        draft = Draft((0,) * size, parents, (None,) * size)
        tree = tree_mask(parents, pending=pending, cached=cached)
        text = cached + pending
        assert tree.sees.shape == (pending + size, text + size)
        for row in range(pending):
            assert tree.sees[row].nonzero()[:, 0].tolist() == list(range(cached + row + 1))
            assert tree.positions[row] == cached + row
        for node in range(size):
            path = draft.path(node)
            seen = [*range(text), *(text + step for step in path)]
            assert tree.sees[pending + node].nonzero()[:, 0].tolist() == seen
            assert tree.positions[pending + node] == text + len(path) - 1


def test_a_tree_may_be_read_in_parts() -> None:
    for parents in ([-1, -1, 0, 2, 1, 3], [-1, 0, 1, 2, 3, 4]):
        whole = tree_mask(parents, cached=5)
        for first in range(len(parents)):
            part = tree_mask(parents, cached=5, first=first)
            assert torch.equal(part.sees, whole.sees[first:])
            assert torch.equal(part.positions, whole.positions[first:])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_masked_places_hold_the_lowest_value_of_the_precision(dtype: torch.dtype) -> None:
    mask = additive_mask(causal(1, 3), dtype)
    assert mask.dtype == dtype and mask.tolist() == [[0, 0, 0]]
    nothing = additive_mask(torch.zeros(1, 3, dtype=torch.bool), dtype)
    assert nothing.eq(torch.finfo(dtype).min).all()
    assert nothing.softmax(-1).isfinite().all()


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # transformers makes a chain's mask
@pytest.mark.parametrize("name", ["qwen3", "gemma3_text", "llama4_text"])
def test_a_tree_read_by_flex_attention_has_the_logits_of_eager(name: str) -> None:
    """Without a compiler: that of flex attention takes a minute on a CPU, and other windows."""
    model = build(ENTRIES[name])
    read = []
    for kind in ("eager", FLEX):
        model.set_attn_implementation(kind)
        cached = CachedModel(model)
        with torch.compiler.set_stance("force_eager"):
            prompt = cached.feed([7, 9, 11, 13, 15, 17, 6, 8, 7], 2)
            mask = tree_mask(TREE, pending=1, cached=cached.length)
            read.append(torch.cat([prompt, cached.feed([5, 6, 7, 8, 9, 10], 6, mask)]))
    torch.testing.assert_close(*read, rtol=1e-4, atol=1e-4)
    assert attention(model) == FLEX


def test_a_model_without_flex_attention_is_refused_in_one_line(tmp_path: Path) -> None:
    build(ENTRIES["gpt2"]).save_pretrained(tmp_path)
    (tmp_path / "vocab.txt").write_text("a")  # which is read later
    line = (
        r"^model=[^\n]*: ValueError: GPT2LMHeadModel does not support [^\n]*flex_attention[^\n]*$"
    )
    with pytest.raises(TargetError, match=line):
        TransformersTarget(str(tmp_path), attn_implementation=FLEX)


def test_flash_attention_is_said_to_read_chains_alone() -> None:
    model = build(ENTRIES["llama"])
    model.config._attn_implementation = "flash_attention_2"
    line = "flash_attention_2 reads chains alone: expected flex_attention, sdpa or eager"
    assert beyond_a_test(model) == line
