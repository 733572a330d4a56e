"""Flex attention reads trees as eager attention does; flash attention has none of them."""

from pathlib import Path

import pytest
import torch
from tiny.models import build, entries

from outrider import TargetError
from outrider.contract.draft import ROOT
from outrider.targets.passes.block_masks import FLEX, attention
from outrider.targets.passes.cached_model import CachedModel
from outrider.targets.passes.tree_mask import tree_mask
from outrider.targets.self_test_text import beyond_a_test
from outrider.targets.transformers import TransformersTarget

ENTRIES = {entry.name: entry for entry in entries()}
TREE = (ROOT, ROOT, 0, 1, 2)


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
            read.append(torch.cat([prompt, cached.feed_tree([5, 6, 7, 8, 9, 10], 6, mask)]))
    torch.testing.assert_close(*read, rtol=1e-4, atol=1e-4)
    assert attention(model) == FLEX


def test_a_model_without_flex_attention_is_refused_in_one_line(tmp_path: Path) -> None:
    build(ENTRIES["gpt2"]).save_pretrained(tmp_path)
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
