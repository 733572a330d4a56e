"""Exported weights give the drafter's own scores under the formulas of vLLM's classes."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch.nn.functional import silu
from transformers import AutoModelForCausalLM

from outrider import ConfigError, Drafter
from outrider.drafters.eagle3.drafter import Eagle3
from outrider.drafters.medusa import Medusa, MedusaNetwork
from outrider.drafters.mtp.drafter import Mtp
from outrider.drafters.pard import Pard
from outrider.drafters.parts.networks import student, weights
from outrider.drafters.parts.networks.vocabulary import Vocabulary
from outrider.drafters.prompt_lookup import PromptLookup
from outrider.drafters.small_lm import SmallLM
from outrider.extras.serving.export import exported
from outrider.targets.transformers import TransformersTarget

SAME = {"vocabulary": "same"}


@pytest.fixture
def target(llama: Any) -> TransformersTarget:
    return TransformersTarget(llama())


@pytest.fixture
def export(target: TransformersTarget, tmp_path: Path) -> Any:
    """Exports a drafter with its settings in a run, for a target or for none."""

    def go(drafter: Drafter, gamma: int = 3, *, target: Any = target, **settings: Any) -> Any:
        def made() -> Any:
            assert target is not None, "no target is needed here"
            return target

        config = {"drafter": settings, "gamma": gamma}
        return exported(drafter, config, made, tmp_path / "exported")

    return go


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
    ("ids", "own"), [([0, 2, 5, 30], False), ([0, 2, 5, 30], True), (None, False), (None, True)]
)
def test_medusa_agrees_with_vllms_formula(
    export: Any, target: TransformersTarget, tmp_path: Path, ids: list[int] | None, own: bool
) -> None:
    network = trained(target, tmp_path / "trained", ids, heads=3, blocks=2, own=own)
    path, folder = str(tmp_path / "trained"), tmp_path / "exported"
    speculative = export(Medusa(path), 2, path=path)
    assert speculative == {"method": "medusa", "model": str(folder), "num_speculative_tokens": 2}
    written = json.loads((folder / "config.json").read_text())
    tensors = load_file(folder / "model.safetensors")
    shape = (written["num_heads"], written["num_hidden_layers"], written["hidden_size"])
    assert shape == (2, 2, 16)
    assert written["model_type"] == "medusa" and written["vocab_size"] == 31
    assert written["medusa_fc_bias"]
    state = torch.randn(5, 16, generator=torch.Generator().manual_seed(1))
    for head in range(2):
        x = state
        for layer in range(2):
            name = f"blocks.{head}.layers.{layer}"
            x = x + silu(x @ tensors.pop(f"{name}.weight").T + tensors.pop(f"{name}.bias"))
        if written["original_lm_head"]:
            scores = x @ tensors["lm_head.weight"].T
        else:
            scores = x @ tensors.pop(f"lm_heads.{head}.weight").T
        expected = network.ahead([head], state)[0]
        known = scores if ids is None else scores[:, ids]
        torch.testing.assert_close(known, expected, rtol=1e-4, atol=1e-3)
        # vLLM drafts torch's argmax, which is the first of equals here.
        drafted = [row.index(max(row)) for row in scores.tolist()]
        assert drafted == network.vocabulary.spread(expected).argmax(-1).tolist()
    assert set(tensors) == (set() if own else {"lm_head.weight"})


def test_heads_that_vllms_format_can_not_hold(
    export: Any, target: TransformersTarget, tmp_path: Path
) -> None:
    path = str(tmp_path / "trained")
    trained(target, Path(path), [0, 1, 2], heads=2, blocks=1, kind="hidden")
    with pytest.raises(ConfigError, match="no block but the residual one"):
        export(Medusa(path), 2, path=path)
    assert not (tmp_path / "exported").exists()


def test_a_student_is_exported_with_the_targets_tables(
    export: Any, target: TransformersTarget, llama: Any, tmp_path: Path
) -> None:
    student.save_student(llama(seed=1, num_hidden_layers=1), tmp_path / "trained")
    model, folder = str(tmp_path / "trained"), str(tmp_path / "exported")
    speculative = export(SmallLM(model), model=model, **SAME)
    assert speculative == {"method": "draft_model", "model": folder, "num_speculative_tokens": 3}
    ids = torch.tensor([[3, 4, 5]])
    auto: Any = AutoModelForCausalLM
    expected = student.read_student(tmp_path / "trained", target)(ids).logits
    torch.testing.assert_close(auto.from_pretrained(folder)(ids).logits, expected)


def test_the_student_of_smollm2_is_small_lms_default(
    export: Any, llama: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    student.save_student(llama(seed=1, num_hidden_layers=1), tmp_path / "trained")
    assert export(SmallLM(), model=None, layers=None, **SAME) is None  # of another target
    monkeypatch.setattr(weights, "is_smollm2", lambda _: True)
    monkeypatch.setattr(weights, "built_in", lambda _: tmp_path / "trained")
    speculative = export(SmallLM(), model=None, layers=None, **SAME)
    assert speculative["model"] == str(tmp_path / "exported")
    assert (tmp_path / "exported" / "model.safetensors").is_file()


def test_folders_that_vllm_reads_unchanged(export: Any, tmp_path: Path, folder: Path) -> None:
    speculative = export(Eagle3(), target=None, path=None)
    assert speculative["method"] == "eagle3" and Path(speculative["model"]).name == "eagle3"
    for model in (str(folder), "some/model"):
        speculative = export(SmallLM(model), 4, target=None, model=model, **SAME)
        assert speculative == {"method": "draft_model", "model": model, "num_speculative_tokens": 4}
    assert not (tmp_path / "exported").exists()


def test_drafters_that_vllm_does_not_have(export: Any) -> None:
    assert export(SmallLM(layers=3), target=None, model=None, layers=3, **SAME) is None
    assert export(PromptLookup(), target=None) is None
    foreign = {"model": "some/model", "layers": None, "vocabulary": "shared"}
    drafter = SmallLM("some/model", vocabulary="shared")
    assert export(drafter, target=None, **foreign) is None


def test_parallel_models_are_draft_models_that_vllm_runs_in_one_pass(
    export: Any, words: Any, llama: Any, tmp_path: Path
) -> None:
    target = TransformersTarget(llama(vocab_size=40), words)
    student.save_student(llama(seed=1, vocab_size=40), tmp_path / "trained", mask=torch.ones(16))
    folder = tmp_path / "exported"
    parallel = {"method": "draft_model", "num_speculative_tokens": 3, "parallel_drafting": True}
    for name, model in ((str(tmp_path / "trained"), str(folder)), ("amd/PARD-1B", "amd/PARD-1B")):
        assert export(Pard(name), target=target, model=name) == parallel | {"model": model}
    assert json.loads((folder / "config.json").read_text())["pard_token"] == len(words)


def test_a_layer_for_prediction_is_the_targets_own_or_stitched_to_it(export: Any) -> None:
    own = export(Mtp(), 2, target=None, path=None)
    assert own == {"method": "mtp", "num_speculative_tokens": 2}
    with pytest.raises(ConfigError, match=r"engines have no layer .* of llama: expected deep"):
        export(Mtp("untrained"), path="untrained")
