"""The MLP speculator: conformance, IBM's files, and stages that read the tokens drawn."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tiny.checkpoints import change, write
from torch.nn.functional import gelu

from outrider import ConfigError, decode
from outrider.drafters.mlp_speculator import MLPSpeculator, MLPSpeculatorNetwork
from outrider.targets.transformers import TransformersTarget
from outrider.verifiers.token import Token


@pytest.fixture(params=[False, True], ids=["plain", "scaled"])
def published(request: pytest.FixtureRequest, llama: Any, tmp_path: Path) -> Any:
    """Two stages 12 wide in IBM's layout."""
    generator = torch.Generator().manual_seed(2)
    tensors = {}
    for stage in range(2):
        tensors[f"speculator.emb.{stage}.weight"] = torch.randn(31, 12, generator=generator)
        width = 16 if stage == 0 else 12
        tensors[f"speculator.proj.{stage}.weight"] = torch.randn(12, width, generator=generator)
        tensors[f"speculator.ln.{stage}.weight"] = torch.randn(12, generator=generator)
        tensors[f"speculator.ln.{stage}.bias"] = torch.randn(12, generator=generator)
        tensors[f"speculator.head.{stage}.weight"] = torch.randn(31, 12, generator=generator)
    config = {"n_predict": 2, "inner_dim": 12, "emb_dim": 16, "vocab_size": 31}
    config |= {"scale_input": request.param}
    folder = Path(write(tmp_path / "accelerator", config, tensors))
    return TransformersTarget(llama()), folder, tensors, request.param


def test_the_stages_are_those_of_the_published_weights(published: Any) -> None:
    target, folder, tensors, scaled = published
    network = MLPSpeculatorNetwork.read_checkpoint(folder, target)
    state, tokens = torch.randn(4, 16), torch.tensor([[1, 2, 3, 4], [5, 6, 7, 8]])
    state_weight = 0.5 ** (0.5 / 2)
    ratio = ((1 - state_weight**2) * 12 / 2) ** 0.5 / state_weight

    def normed(x: torch.Tensor) -> torch.Tensor:
        return x / (x.pow(2).mean(-1, keepdim=True) + 1e-6).sqrt()

    right = normed(state) / 2**0.5 if scaled else state
    states = network.start(state)
    for stage in range(2):
        part = {name.removeprefix("speculator."): tensor for name, tensor in tensors.items()}
        word = part[f"emb.{stage}.weight"][tokens[stage]]
        right = right @ part[f"proj.{stage}.weight"].T + ratio * word
        right = gelu(normed(right) * part[f"ln.{stage}.weight"] + part[f"ln.{stage}.bias"])
        states = network(stage, states, tokens[stage])
        torch.testing.assert_close(states, right, rtol=1e-4, atol=1e-4)
        logits = right @ part[f"head.{stage}.weight"].T
        torch.testing.assert_close(network.logits(stage, states), logits, rtol=1e-4, atol=1e-3)


def test_drafts_are_no_longer_than_the_number_of_stages(published: Any) -> None:
    target, folder, *_ = published
    drafter = MLPSpeculator(str(folder))
    rounds = list(decode(target, drafter, Token(), [3, 4], gamma=5, max_new_tokens=12))
    assert max(len(round.draft) for round in rounds) == 2


def test_a_stage_that_is_missing(published: Any) -> None:
    target, folder, *_ = published
    change(folder, {}, {"speculator.ln.1.bias": None})
    with pytest.raises(ConfigError, match=r"tensor ln\.1\.bias is missing"):
        MLPSpeculator(str(folder)).bind(target)
