"""A GGUF file's weights as they are stored: its numbers, its text, and what can't be kept."""

from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from tiny.wrapped import stored_blocks, write_fields, write_gguf

import outrider
from outrider import ConfigError, Draft, TargetError
from outrider.drafters.small_lm import SmallLM
from outrider.extras.cpu.packed_linear import PackedLinear, PackedTable
from outrider.extras.cpu.packed_matrix import Panels
from outrider.targets.stored import FORMATS, StoredMatrix
from outrider.targets.transformers import TransformersTarget


@pytest.mark.usefixtures("built")
@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("outputs", [64, 43])
def test_products_are_those_of_the_file(form: str, outputs: int) -> None:
    kind = gguf.GGMLQuantizationType[form]
    blocks = stored_blocks(np.random.default_rng(0), (outputs, 512), kind)
    dense = torch.from_numpy(gguf.quants.dequantize(blocks, kind))
    packed = Panels(StoredMatrix(form, torch.from_numpy(blocks), 512), torch.ones(outputs))
    assert torch.equal(packed.to_dense(), dense), "bit by bit"
    for wrong in (-1, outputs):
        with pytest.raises(IndexError, match="expected rows from 0 to"):
            packed.rows(torch.tensor([0, wrong]))
    x = torch.randint(-127, 128, (30, 512)).float()
    x[:, ::32] = 127  # so that each group of inputs is of eight bits already
    right, found = x.double() @ dense.double().T + 1, packed.product(x)
    assert (found - right).norm() <= 1e-6 * right.norm()
    assert torch.equal(found, torch.cat([packed.product(row) for row in x.split(1)]))


@pytest.mark.usefixtures("built")
@pytest.mark.parametrize("form", FORMATS)
def test_an_input_that_is_no_number_leaves_no_output_a_number(form: str) -> None:
    blocks = stored_blocks(np.random.default_rng(0), (64, 256), gguf.GGMLQuantizationType[form])
    packed = Panels(StoredMatrix(form, torch.from_numpy(blocks), 256), None)
    x = torch.randn(7, 256)
    x[0, 5] = torch.inf
    is_number = packed.product(x).isfinite()
    assert not is_number[0].any() and is_number[1:].all()


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("form", [*FORMATS, "F16"])
def test_a_file_writes_the_text_of_its_dequantised_weights(form: str, capsys: Any) -> None:
    write_gguf(Path("tiny.gguf"), form, 256)
    plain = TransformersTarget("tiny.gguf", optimize="none")
    capsys.readouterr()
    for _ in range(2):  # the second reads what the first has kept
        target = TransformersTarget("tiny.gguf", quantize="stored")
        assert f"({form}) stay as stored" in capsys.readouterr().err
    assert target.lossless and target.fingerprint() != plain.fingerprint()
    for name, weight in plain.model.state_dict().items():
        assert torch.equal(target.model.state_dict()[name], weight), name
    found, right = (it.open([5, 6, 7]).score(Draft())[0] for it in (target, plain))
    assert (found - right).norm() < 0.3 * right.norm()  # inputs of eight bits
    text = outrider.generate(target, "the end", "none", max_new_tokens=8)
    drafter = SmallLM("tiny.gguf", quantize="stored")
    drafted = outrider.generate(target, "the end", drafter, max_new_tokens=8)
    assert drafted.tokens == text.tokens


def test_a_head_and_a_table_share_their_panels() -> None:
    write_gguf(Path("tiny.gguf"), without=("output",))
    model: Any = TransformersTarget("tiny.gguf", quantize="stored").model
    table, head = model.get_input_embeddings(), model.get_output_embeddings()
    assert isinstance(table, PackedTable) and isinstance(head, PackedLinear)
    assert table.packed is head.packed


def test_weights_that_can_not_stay_as_stored_are_refused_in_one_line() -> None:
    write_gguf(Path("tiny.gguf"), "TQ2_0", 256)
    line = (
        r"target\.quantize='stored': expected null, tiny\.gguf has .*_embd\.weight in TQ2_0, not Q4"
    )
    with pytest.raises(ConfigError, match=line):
        TransformersTarget("tiny.gguf", quantize="stored")
    write_gguf(Path("tiny.gguf"))
    for settings, line in (
        ({"dtype": "bfloat16"}, "dtype='bfloat16': expected auto with target.quantize=stored"),
        ({"device": "meta"}, "device='meta': expected cpu with"),
        ({"optimize": "none"}, "quantize='stored': expected null, or target.optimize=packed"),
    ):
        with pytest.raises(ConfigError, match=line):
            TransformersTarget("tiny.gguf", quantize="stored", **settings)
    with pytest.raises(ConfigError, match="expected null, or a GGUF file as the model"):
        TransformersTarget("a/model", quantize="stored")
    loaded = TransformersTarget("tiny.gguf", optimize="none").model
    with pytest.raises(ConfigError, match="expected null for a model that is loaded already"):
        TransformersTarget(loaded, quantize="stored")
    write_gguf(Path("less.gguf"), without=("blk.0.ffn_up",))
    with pytest.raises(TargetError, match=r"has blk\.0\.ffn_up\.weight of \[\], not \[128, 64\]"):
        TransformersTarget("less.gguf", quantize="stored")
    write_fields(Path("other.gguf"), "gpt2", {"block_count": 1}, {})
    with pytest.raises(ConfigError, match=r"other\.gguf is of gpt2: stored weights run in llama, "):
        TransformersTarget("other.gguf", quantize="stored")
