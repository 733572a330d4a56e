"""Models from a folder: a missing or damaged one is reported in one line."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from outrider import ConfigError, TargetError
from outrider.targets import loading
from outrider.targets.transformers import TransformersTarget


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        *(
            ({"model": name}, f"model='{name}': expected a hub id")
            for name in ("./gone", "/gone/for/good", "gone", "a/b/c")
        ),
        ({"dtype": "int3"}, "dtype='int3': expected one of auto, float32"),
        *(
            ({"device": name}, rf"^device='{name}': expected one that is here \([^\n]*$")
            for name in ("warp", "xpu", "cuda:7")
        ),
        ({"device": "cpu", "device_map": "auto"}, r"^target.device='cpu': expected auto with targ"),
        (
            {"attn_implementation": "sdpa", "tensor_parallel": True},
            "^target.attn_implementation='sdpa': expected null with target.tensor_parallel$",
        ),
        ({"quantization_config": {"load_in_4bit": True}}, r"can't be loaded: [^\n]*pip install"),
        ({"quantization_config": {"quant_method": "three"}}, "Unknown quantization type, got thr"),
        ({"device_map": {"": "warp"}}, "can't be loaded: [^\\n]*warp"),
        ({"attn_implementation": "flash_attention_2"}, "FlashAttention2 .* installed"),
    ],
)
def test_wrong_settings_of_a_model_are_one_line(folder: Path, settings: Any, line: str) -> None:
    with pytest.raises((ConfigError, TargetError), match=line) as caught:
        TransformersTarget(**{"model": str(folder)} | settings)
    assert "\n" not in str(caught.value)


def copied_to(folder: Path, tmp_path: Path) -> tuple[Path, Path]:
    copied = tmp_path / "model"
    shutil.copytree(folder, copied)
    return copied, copied / "model.safetensors"


def test_weights_that_are_damaged_or_do_not_fit_are_named(folder: Path, tmp_path: Path) -> None:
    copied, weights = copied_to(folder, tmp_path)
    right = load_file(weights)
    for name, rows, line in (
        ("model.layers.2.mlp.up_proj.weight", None, r"1 missing keys .*, such as model\.layers\.2"),
        ("model.norm.weight", torch.ones(8), r"1 mismatched keys .*, such as .*model\.norm"),
    ):
        tensors = {
            key: tensor for key, tensor in (right | {name: rows}).items() if tensor is not None
        }
        save_file(tensors, weights, metadata={"format": "pt"})
        with pytest.raises(TargetError, match=line):
            TransformersTarget(str(copied))
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(TargetError, match=r"can't be loaded: SafetensorError[^\n]*$"):
        TransformersTarget(str(copied))


@pytest.mark.parametrize(
    ("found", "device", "expected"),
    [
        ("cuda", "auto", "cuda"),
        ("xpu", "auto", "xpu"),
        ("mps", "auto", "mps"),
        (None, "auto", "cpu"),
        ("xpu", "xpu:1", "xpu:1"),
        ("cuda", "cpu", "cpu"),
    ],
)
def test_a_model_is_loaded_onto_the_device_that_torch_names(
    folder: Path, monkeypatch: pytest.MonkeyPatch, found: str | None, device: str, expected: str
) -> None:
    """Weights go there at once, and keep the checkpoint's type, but for a CPU's."""
    asked: list[Any] = []

    def loaded(name: str, dtype: str, spread: Any, options: Any) -> Any:
        asked.append((dtype, options["device_map"]))
        return torch.nn.Module(), None, {"missing_keys": [], "mismatched_keys": []}

    there = None if found is None else torch.device(found)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda **_: there)
    monkeypatch.setattr(torch, "empty", lambda size, device: None)  # as if the device were here
    monkeypatch.setattr(loading, "_from_pretrained", loaded)
    loading.load(str(folder), "auto", device)
    dtype = "float32" if expected == "cpu" else "auto"
    assert asked == [(dtype, {"": torch.device(expected)})]
