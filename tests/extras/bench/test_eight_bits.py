"""A checkpoint in eight bits holds each matrix to half a step of its rows' scales."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from outrider.extras.bench.eight_bits import rounded_rows, write_eight_bits


def test_rows_are_rounded_to_half_a_step() -> None:
    weight = torch.randn(5, 40, generator=torch.Generator().manual_seed(0)) * torch.tensor(
        [[1.0], [1e-3], [1e3], [0.0], [1e-30]]
    )
    rounded, scales = rounded_rows(weight)
    assert rounded.dtype == torch.int8
    assert ((rounded * scales - weight).abs() <= scales * 0.5001).all()
    assert rounded.abs().amax(1).tolist() == [127, 127, 127, 0, 127]


@pytest.mark.parametrize("tied", [True, False])
def test_the_layers_are_rounded_and_the_rest_stays(
    tied: bool, llama: Any, folder: Path, tmp_path: Path
) -> None:
    model = llama(tie_word_embeddings=tied)
    source = tmp_path / "source"
    model.save_pretrained(source)
    AutoTokenizer.from_pretrained(folder).save_pretrained(source)
    folder = write_eight_bits(str(source), tmp_path / "rounded")
    tensors = load_file(folder / "model.safetensors")
    assert ("lm_head.weight" in tensors) is not tied
    config = json.loads((folder / "config.json").read_text())
    assert config["quantization_config"]["config_groups"]["group_0"]["targets"] == ["Linear"]
    assert config["num_hidden_layers"] == model.config.num_hidden_layers
    state = AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32).state_dict()
    scaled = {name.removesuffix("_scale") for name in tensors if name.endswith("_scale")}
    assert len(scaled) == 7 * model.config.num_hidden_layers
    for name in scaled:
        error = tensors[name] * tensors[f"{name}_scale"] - state[name]
        assert (error.abs() <= tensors[f"{name}_scale"] * 0.5001).all()
    for name in tensors.keys() - scaled - {f"{name}_scale" for name in scaled}:
        assert torch.equal(tensors[name], state[name])
