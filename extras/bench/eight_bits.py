"""A checkpoint with weights of eight bits, in the layout that vLLM reads."""

import json
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int8
from safetensors.torch import save_file
from torch import Tensor, nn

HIGHEST = 127
"""The highest number of a signed byte that has a counterpart of the other sign."""


def write_eight_bits(model: str, folder: Path) -> Path:
    """Writes a model with the weights of its layers in eight bits, and returns the folder.

    The layout is that of the compressed-tensors library. Each row of a matrix has a scale. vLLM
    rounds the inputs of products too, token by token. The head and the embedding stay as they are.

    model: a folder or hub id.
    """
    from transformers import AutoModelForCausalLM, AutoTokenizer

    auto: Any = AutoModelForCausalLM
    loaded = auto.from_pretrained(model, dtype=torch.float32)
    tensors = {name: tensor.contiguous() for name, tensor in loaded.state_dict().items()}
    if loaded.config.tie_word_embeddings:
        del tensors["lm_head.weight"]
    for name, module in loaded.base_model.named_modules(prefix=loaded.base_model_prefix):
        if isinstance(module, nn.Linear):
            rounded, scales = rounded_rows(module.weight.detach())
            tensors |= {f"{name}.weight": rounded, f"{name}.weight_scale": scales}
    folder.mkdir(exist_ok=True)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    config = loaded.config.to_dict() | {"quantization_config": _layout()}
    (folder / "config.json").write_text(json.dumps(config, default=str), encoding="utf-8")
    AutoTokenizer.from_pretrained(model).save_pretrained(folder)
    return folder


def rounded_rows(
    weight: Float[Tensor, "outputs inputs"],
) -> tuple[Int8[Tensor, "outputs inputs"], Float[Tensor, "outputs 1"]]:
    """Returns a matrix in eight bits and the scale of each row, its largest number over 127."""
    scales = weight.abs().amax(1, keepdim=True).clamp(min=torch.finfo(weight.dtype).tiny) / HIGHEST
    return (weight / scales).round().to(torch.int8), scales


def _layout() -> dict[str, Any]:
    eight_bits = {"num_bits": 8, "type": "int", "symmetric": True}
    return {
        "quant_method": "compressed-tensors",
        "format": "int-quantized",
        "quantization_status": "compressed",
        "ignore": ["lm_head"],
        "config_groups": {
            "group_0": {
                "targets": ["Linear"],
                "weights": eight_bits | {"strategy": "channel", "dynamic": False},
                "input_activations": eight_bits | {"strategy": "token", "dynamic": True},
            }
        },
    }
