"""Medusa: conformance, FasterDecoding's files, and heads that are independent of each other."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny.checkpoints import change
from torch.nn.functional import silu

from outrider import ConfigError, decode
from outrider.drafters.medusa import Medusa, MedusaNetwork
from outrider.targets.transformers import TransformersTarget
from outrider.verifiers.candidates import Candidates
from outrider.verifiers.token import Token


@pytest.fixture
def published(llama: Any, tmp_path: Path) -> Any:
    """Three heads of one block in FasterDecoding's layout."""
    generator = torch.Generator().manual_seed(2)
    tensors = {}
    for head in range(3):
        tensors[f"{head}.0.linear.weight"] = torch.randn(16, 16, generator=generator)
        tensors[f"{head}.0.linear.bias"] = torch.randn(16, generator=generator)
        tensors[f"{head}.1.weight"] = torch.randn(31, 16, generator=generator)
    folder = tmp_path / "medusa"
    folder.mkdir()
    torch.save(tensors, folder / "medusa_lm_head.pt")
    config = {
        "medusa_num_heads": 3,
        "medusa_num_layers": 1,
        "base_model_name_or_path": "tiny/llama",
    }
    (folder / "config.json").write_text(json.dumps(config))
    return TransformersTarget(llama()), folder, tensors


def test_the_heads_are_those_of_the_published_weights(published: Any) -> None:
    target, folder, tensors = published
    network = MedusaNetwork.read_checkpoint(folder, target)
    state = torch.randn(4, 16)
    for head in range(3):
        weight, bias = tensors[f"{head}.0.linear.weight"], tensors[f"{head}.0.linear.bias"]
        block = state + silu(state @ weight.T + bias)
        right = block @ tensors[f"{head}.1.weight"].T
        torch.testing.assert_close(network.ahead(head, state), right, rtol=1e-5, atol=1e-4)


def test_drafts_are_no_longer_than_the_number_of_heads(published: Any) -> None:
    target, folder, _ = published
    drafter = Medusa(str(folder))
    rounds = list(decode(target, drafter, Token(), [3, 4], gamma=7, max_new_tokens=12))
    assert max(len(round.draft) for round in rounds) == 3


def test_medusa_choices_are_a_tree_of_paths(published: Any) -> None:
    target, folder, _ = published
    drafter = Medusa(str(folder), tree="top:[[0],[0,0],[1],[0,1],[0,0,0]]")
    rounds = list(
        decode(target, drafter, Candidates(), [3, 4], gamma=3, budget=5, max_new_tokens=12)
    )
    assert rounds[1].parents == (-1, -1, 0, 0, 2)
    first, second = rounds[1].draft[:2]
    assert first != second
    by_depth = [rounds[1].draft[2], rounds[1].draft[3]]
    assert by_depth[0] != by_depth[1]


@pytest.mark.parametrize(
    ("entries", "tensors", "line"),
    [
        ({"medusa_num_heads": 0}, {}, "expected medusa_num_heads and medusa_num_layers"),
        ({"block": "odd"}, {}, "block='odd': expected residual or hidden"),
        ({}, {"2.1.weight": None}, r"tensor heads\.2\.1\.weight is missing"),
    ],
)
def test_other_heads_are_refused(entries: Any, tensors: Any, line: str, published: Any) -> None:
    target, folder, _ = published
    change(folder, entries, tensors)
    with pytest.raises(ConfigError, match=line):
        Medusa(str(folder)).bind(target)
