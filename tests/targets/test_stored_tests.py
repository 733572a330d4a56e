"""A self-test is read from the disk for the same model and code, and for nothing else."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from outrider.plugins.fingerprint import checksum
from outrider.targets import stored_tests
from outrider.targets.passes.engine import use_engine
from outrider.targets.self_test import SelfTest
from outrider.targets.stored_tests import stored_self_test
from outrider.targets.transformers import TransformersTarget


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder for results."""
    kept = tmp_path / "kept"
    monkeypatch.setenv("OUTRIDER_SELF_TESTS", str(kept))
    return kept


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The models whose self-test ran, one entry for each run."""
    models: list[Any] = []

    def counted(model: Any, start: Any = ()) -> SelfTest:
        models.append(model)
        return SelfTest(trees="it was not asked", window=3)

    monkeypatch.setattr(stored_tests, "self_test", counted)
    return models


def test_the_same_model_is_tested_once(results: Path, runs: list[Any], llama: Any) -> None:
    first = stored_self_test(llama())
    assert stored_self_test(llama()) == first == SelfTest(trees="it was not asked", window=3)
    assert len(runs) == 1
    (path,) = results.iterdir()
    assert json.loads(path.read_text())["trees"] == "it was not asked"


def changed_weight(model: Any) -> Any:
    with torch.no_grad():
        model.model.layers[2].mlp.up_proj.weight[3, 4] += 1e-3
    return model


def changed_buffer(model: Any) -> Any:
    model.model.rotary_emb.inv_freq[1] *= 2
    return model


def eager(model: Any) -> Any:
    model.set_attn_implementation("eager")
    return model


def changed_setting(model: Any) -> Any:
    model.config.rms_norm_eps = 1e-3
    return model


@pytest.mark.parametrize(
    "change", [changed_weight, changed_buffer, eager, changed_setting, torch.nn.Module.half]
)
def test_another_model_is_tested_itself(
    results: Path, runs: list[Any], llama: Any, change: Callable[[Any], Any]
) -> None:
    stored_self_test(llama())
    stored_self_test(change(llama()))
    assert len(runs) == len(list(results.iterdir())) == 2


@pytest.mark.parametrize("what", ["versions", "source_hash"])
def test_other_versions_or_sources_are_tested_again(
    results: Path, runs: list[Any], llama: Any, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    stored_self_test(llama())
    monkeypatch.setattr(stored_tests, what, lambda *_: "another")
    stored_self_test(llama())
    assert len(runs) == 2


@pytest.mark.parametrize("damaged", ["", "{", "[1]", '{"shape": 3}', "\x00\xff"])
def test_a_damaged_file_is_written_again(
    results: Path, runs: list[Any], llama: Any, damaged: str
) -> None:
    result = stored_self_test(llama())
    (path,) = results.iterdir()
    path.write_text(damaged)
    assert stored_self_test(llama()) == result
    assert len(runs) == 2
    assert stored_self_test(llama()) == result
    assert len(runs) == 2


def test_targets_keep_the_results_of_their_own_loading_only(
    results: Path, runs: list[Any], folder: Path, llama: Any, words: Any
) -> None:
    for part in (llama(hidden_size=32), words):
        part.save_pretrained(results.parent)
    TransformersTarget(llama())
    TransformersTarget(str(results.parent))  # the library runs it, and vouches for its passes
    assert not results.exists()
    runs.clear()
    plain = [TransformersTarget(str(folder), optimize="none") for _ in range(2)]
    assert len(runs) == 1
    assert [target.trees for target in plain] == [False, False]
    assert plain[0].no_trees == "LlamaForCausalLM takes only chains, since it was not asked"
    tested = plain[0].test_again()
    assert plain[0].trees
    assert tested == plain[0].tested == SelfTest()
    assert len(runs) == 1


def test_compiled_passes_have_no_self_test(llama: Any) -> None:
    target = TransformersTarget(llama(), optimize="compile")
    assert target.test_again() is None
    assert target.tested == SelfTest()


def test_packed_weights_and_odd_sizes_count(results: Path, llama: Any) -> None:
    """Packed layers are no parameters; a tensor of 3 bytes fills no word."""
    model, other = llama(), changed_weight(llama())
    for one in (model, other):
        one.register_buffer("odd", torch.zeros(11, dtype=torch.uint8)[8:])
        use_engine(one, "packed")
    sums = {checksum(stored_tests._tensors(one)) for one in (model, other)}
    model.odd[2] = 1
    assert len(sums | {checksum(stored_tests._tensors(model))}) == 3
