"""Students are saved without the target's tables, and read back with them, bit by bit the same."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from outrider import ConfigError, Sampling
from outrider.drafters.parts.networks.student import borrows, read_student, save_student
from outrider.drafters.small_lm import SmallLM
from outrider.targets.passes.engine import use_engine
from outrider.targets.passes.first_layers import first_layers
from outrider.targets.transformers import TransformersTarget
from outrider.testing.stage import context_after, play_draft


@pytest.fixture(params=["tied", "apart"])
def target(request: Any, llama: Any) -> Any:
    return TransformersTarget(llama(tie_word_embeddings=request.param == "tied"))


@pytest.fixture
def folder(target: Any, tmp_path: Path) -> Path:
    path = tmp_path / "student"
    short: Any = first_layers(target.model, 2)
    own = type(short)(short.config)
    own.load_state_dict(short.state_dict(), strict=False)
    save_student(own, path, torch.float32)
    return path


def test_the_tables_stay_with_the_target(folder: Path, target: Any) -> None:
    with safe_open(folder / "model.safetensors", "pt") as file:
        names = set(file.keys())
    assert not any("embed_tokens" in name or "lm_head" in name for name in names)
    assert any("layers.1." in name for name in names)
    assert borrows(folder) and not borrows(folder.parent)
    student = read_student(folder, target)
    ids = torch.tensor([[3, 4, 5, 6]])
    assert torch.equal(student(ids).logits, first_layers(target.model, 2)(ids).logits)
    words = target.model.get_input_embeddings().weight
    assert student.get_input_embeddings().weight.data_ptr() == words.data_ptr()


def test_a_student_drafts_as_its_targets_first_layers(folder: Path, target: Any) -> None:
    drafts = []
    for drafter in (SmallLM(str(folder)), SmallLM(layers=2)):
        drafter.bind(target)
        context = context_after(drafter, target, [3, 4, 5])
        sampling = Sampling(temperature=1.0)
        drafts.append(play_draft(drafter, target, context, gamma=3, sampling=sampling).tokens)
    assert drafts[0] == drafts[1] and len(drafts[0]) == 3


def test_a_packed_target_lends_its_tables_too(folder: Path, target: Any) -> None:
    ids = torch.tensor([[3, 4, 5, 6]])
    right = first_layers(target.model, 2)(ids).logits
    use_engine(target.model, "packed")
    logits = read_student(folder, target)(ids).logits
    torch.testing.assert_close(logits, right, rtol=1e-5, atol=1e-5)


def test_a_tensor_that_does_not_fit_is_named(folder: Path, target: Any) -> None:
    tensors = load_file(folder / "model.safetensors")
    gone = "model.layers.1.mlp.up_proj.weight"
    save_file(
        {name: tensor for name, tensor in tensors.items() if name != gone},
        folder / "model.safetensors",
    )
    with pytest.raises(ConfigError, match=f"tensor {gone} is missing"):
        read_student(folder, target)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"hidden_size": 24}))
    with pytest.raises(ConfigError, match="its hidden_size is 24, the target's 16"):
        read_student(folder, target)
