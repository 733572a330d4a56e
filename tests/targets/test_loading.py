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


@pytest.mark.parametrize("name", ["./gone", "/gone/for/good", "gone", "a/b/c"])
def test_a_missing_folder(name: str) -> None:
    with pytest.raises(ConfigError, match=f"model='{name}': expected a hub id"):
        TransformersTarget(name)


def test_unknown_dtype_and_device(folder: Path) -> None:
    with pytest.raises(ConfigError, match="dtype='int3': expected one of auto, float32"):
        TransformersTarget(str(folder), dtype="int3")
    with pytest.raises(ConfigError, match="device='warp': expected one that is here"):
        TransformersTarget(str(folder), device="warp")


def copied_to(folder: Path, tmp_path: Path) -> tuple[Path, Path]:
    copied = tmp_path / "model"
    shutil.copytree(folder, copied)
    return copied, copied / "model.safetensors"


def test_corrupt_weights_are_one_line(folder: Path, tmp_path: Path) -> None:
    copied, weights = copied_to(folder, tmp_path)
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(TargetError, match=r"can't be loaded: SafetensorError") as caught:
        TransformersTarget(str(copied))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "rows", "line"),
    [
        ("model.layers.2.mlp.up_proj.weight", None, r"1 missing keys .*, such as model\.layers\.2"),
        ("model.norm.weight", torch.ones(8), r"1 mismatched keys .*, such as .*model\.norm"),
    ],
)
def test_weights_that_do_not_fit_are_named(
    folder: Path, tmp_path: Path, name: str, rows: Any, line: str
) -> None:
    copied, weights = copied_to(folder, tmp_path)
    tensors = load_file(weights)
    tensors |= {name: rows}
    fitting = {name: tensor for name, tensor in tensors.items() if tensor is not None}
    save_file(fitting, weights, metadata={"format": "pt"})
    with pytest.raises(TargetError, match=line):
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


@pytest.mark.parametrize("device", ["xpu", "xpu:3", "cuda:7"])
def test_a_device_that_is_not_here_is_one_line(device: str) -> None:
    with pytest.raises(
        ConfigError, match=rf"^device='{device}': expected one that is here \([^\n]*$"
    ):
        loading.load("owner/name", "auto", device)
