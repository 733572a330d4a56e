"""A tensor that does not fit is refused by name, and a pickle never runs."""

import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from packed_weights import packed
from safetensors.torch import save_file
from torch import nn

from outrider import ConfigError
from outrider.drafters.parts.checkpoint import (
    find_tensors,
    load_tensors,
    read_config,
    read_tensors,
    replace_prefixes,
)


@pytest.mark.parametrize(("kind", "steps"), [("Q8_0", 254), ("Q5_0", 30)])
def test_a_matrix_in_few_bits_is_read_to_half_a_step(kind: str, steps: int, tmp_path: Path) -> None:
    exact = {"a.weight": torch.randn(3, 64), "norm": torch.rand(64), "ids": torch.arange(9)}
    save_file(packed(exact, kind), tmp_path / "model.safetensors")
    _, read = find_tensors(tmp_path)
    assert read.keys() == exact.keys()
    assert torch.equal(read["norm"], exact["norm"]) and read["ids"].tolist() == [*range(9)]
    blocks = exact["a.weight"].view(3, 2, 32)
    errors = (read["a.weight"].view(3, 2, 32) - blocks).abs().amax(-1)
    width = 2 * blocks.abs().amax(-1) / steps
    assert (errors <= 1.1 * width).all() and (errors > 0).all()


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"bias": None}, "tensor bias is missing"),
        ({"weight": torch.zeros(2, 2)}, r"tensor weight is \[2, 2\]: expected \[2, 3\]"),
        ({"odd": torch.zeros(1)}, "tensor odd has no place in the network"),
    ],
)
def test_a_tensor_that_does_not_fit(change: dict[str, Any], line: str, tmp_path: Path) -> None:
    tensors = {"weight": torch.zeros(2, 3), "bias": torch.zeros(2)} | change
    present = {name: tensor for name, tensor in tensors.items() if tensor is not None}
    with pytest.raises(ConfigError, match=line):
        load_tensors(nn.Linear(3, 2), present, tmp_path)


class Bomb:
    def __reduce__(self) -> Any:
        return (Path.touch, (Path("exploded"),))


def test_a_pickle_with_code_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save({"a": Bomb()}, tmp_path / "medusa_lm_head.pt")
    with pytest.raises(ConfigError, match=r"medusa_lm_head\.pt"):
        find_tensors(tmp_path)
    (tmp_path / "raw.pt").write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(ConfigError, match=r"raw\.pt"):
        read_tensors(tmp_path / "raw.pt")
    assert not (tmp_path / "exploded").exists()


@pytest.mark.parametrize("held", [[torch.zeros(1)], {"a": 1}])
def test_something_else_than_tensors_by_name(held: Any, tmp_path: Path) -> None:
    torch.save(held, tmp_path / "x.pt")
    with pytest.raises(ConfigError, match="expected tensors by name"):
        read_tensors(tmp_path / "x.pt")


def test_missing_and_damaged_files(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"expected a folder with config\.json"):
        read_config(tmp_path)
    (tmp_path / "config.json").write_text("[1]")
    with pytest.raises(ConfigError, match="expected a JSON object"):
        read_config(tmp_path)
    with pytest.raises(ConfigError, match=r"expected a folder with model\.safetensors"):
        find_tensors(tmp_path)
    (tmp_path / "model.safetensors").write_text("no tensors")
    with pytest.raises(ConfigError, match="can't be read"):
        find_tensors(tmp_path)
    with pytest.raises(ConfigError, match="expected a file"):
        read_tensors(tmp_path / "gone.safetensors")


def test_names_are_replaced_once() -> None:
    tensors = {"layers.0.mlp": torch.zeros(1), "fc": torch.ones(1)}
    assert list(replace_prefixes(tensors, {"layers.0.": "", "layers.": "x."})) == ["mlp", "fc"]
