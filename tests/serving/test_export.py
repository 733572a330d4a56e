"""What is written for vLLM computes what the drafter computes, by the formulas of vLLM's classes."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch.nn.functional import silu
from transformers import AutoModelForCausalLM

from outrider import ConfigError
from outrider.drafter_parts import student
from outrider.drafter_parts.vocabulary import Vocabulary
from outrider.drafters.eagle3 import Eagle3
from outrider.drafters.medusa import Medusa, MedusaNetwork
from outrider.drafters.prompt_lookup import PromptLookup
from outrider.drafters.small_lm import SmallLM
from outrider.serving.export import exported
from outrider.targets.transformers import TransformersTarget


@pytest.fixture
def target(llama: Any) -> TransformersTarget:
    return TransformersTarget(llama())


def nothing() -> Any:
    raise AssertionError("no target is needed for that")


def trained(target: TransformersTarget, path: Path, ids: list[int] | None, **shape: Any) -> Any:
    """Writes heads with random weights, as training would."""
    vocabulary = Vocabulary(target.vocab_size, None if ids is None else torch.tensor(ids))
    network = MedusaNetwork.untrained(target, vocabulary, **shape)
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator).half())
    network.save_checkpoint(path, target)
    return network


@pytest.mark.parametrize(
    ("ids", "own"),
    [([0, 2, 5, 30], False), ([0, 2, 5, 30], True), (None, False), (None, True)],
)
def test_medusa_by_vllms_formula(
    target: TransformersTarget, tmp_path: Path, ids: list[int] | None, own: bool
) -> None:
    network = trained(target, tmp_path / "ours", ids, heads=3, blocks=2, own=own)
    given = {"drafter": {"path": str(tmp_path / "ours")}, "gamma": 2}
    place = tmp_path / "theirs"
    found = exported(Medusa(given["drafter"]["path"]), given, lambda: target, place)
    assert found == {"method": "medusa", "model": str(place), "num_speculative_tokens": 2}
    config, tensors = (
        json.loads((place / "config.json").read_text()),
        load_file(place / "model.safetensors"),
    )
    assert (config["model_type"], config["num_heads"], config["num_hidden_layers"]) == (
        "medusa",
        2,
        2,
    )
    assert config["medusa_fc_bias"] and config["hidden_size"] == 16 and config["vocab_size"] == 31
    state = torch.randn(5, 16, generator=torch.Generator().manual_seed(1))
    for head in range(2):
        x = state
        for layer in range(2):
            name = f"blocks.{head}.layers.{layer}"
            x = x + silu(x @ tensors.pop(f"{name}.weight").T + tensors.pop(f"{name}.bias"))
        if config["original_lm_head"]:
            scores = x @ tensors["lm_head.weight"].T
        else:
            scores = x @ tensors.pop(f"lm_heads.{head}.weight").T
        right = network.ahead(head, state)
        known = scores if ids is None else scores[:, ids]
        torch.testing.assert_close(known, right, rtol=1e-4, atol=1e-3)
        # What vLLM drafts: torch's argmax, which is the first of equals here.
        drafted = [row.index(max(row)) for row in scores.tolist()]
        assert drafted == network.vocabulary.spread(right).argmax(-1).tolist()
    assert set(tensors) == (set() if own else {"lm_head.weight"})


@pytest.mark.parametrize(
    ("shape", "gamma", "line"),
    [
        ({"heads": 2, "blocks": 1}, 3, "gamma=3: expected at most the 2 heads"),
        ({"heads": 2, "blocks": 1, "kind": "hidden"}, 2, "no block but the residual one"),
    ],
)
def test_heads_that_vllm_has_no_form_for(
    shape: dict[str, Any], gamma: int, line: str, target: TransformersTarget, tmp_path: Path
) -> None:
    trained(target, tmp_path / "ours", [0, 1, 2], **shape)
    given = {"drafter": {"path": str(tmp_path / "ours")}, "gamma": gamma}
    with pytest.raises(ConfigError, match=line):
        exported(Medusa(given["drafter"]["path"]), given, lambda: target, tmp_path / "theirs")
    assert not (tmp_path / "theirs").exists()


def test_a_student_goes_with_the_targets_tables(
    target: TransformersTarget, llama: Any, tmp_path: Path
) -> None:
    small = llama(seed=1, num_hidden_layers=1)
    student.save_student(small, tmp_path / "ours")
    place = tmp_path / "theirs"
    given = {"drafter": {"model": str(tmp_path / "ours")}, "gamma": 3}
    found = exported(SmallLM(given["drafter"]["model"]), given, lambda: target, place)
    assert found == {"method": "draft_model", "model": str(place), "num_speculative_tokens": 3}
    ids = torch.tensor([[3, 4, 5]])
    auto: Any = AutoModelForCausalLM
    right = student.read_student(tmp_path / "ours", target)(ids).logits
    torch.testing.assert_close(auto.from_pretrained(place)(ids).logits, right)


def test_folders_that_vllm_reads_as_they_are(tmp_path: Path, folder: Path) -> None:
    given: dict[str, Any] = {"drafter": {"path": None}, "gamma": 4}
    found = exported(Eagle3(), given, nothing, tmp_path / "theirs")
    assert found is not None
    assert found["method"] == "eagle3" and Path(found["model"]).name == "eagle3"
    for model, said in ((str(folder), str(folder)), ("some/model", "some/model")):
        given = {"drafter": {"model": model}, "gamma": 4}
        found = exported(SmallLM(model), given, nothing, tmp_path / "theirs")
        assert found == {"method": "draft_model", "model": said, "num_speculative_tokens": 4}
    assert not (tmp_path / "theirs").exists()


def test_others_are_not_vllms(tmp_path: Path) -> None:
    given = {"drafter": {"model": None}, "gamma": 4}
    assert exported(SmallLM(), given, nothing, tmp_path) is None
    assert exported(PromptLookup(), given, nothing, tmp_path) is None
