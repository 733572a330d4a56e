"""Students are saved without the target's tables, and read back with them, bit by bit the same."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from tiny.drafters import bound

from outrider.drafters.parts.networks.student import borrows, read_student, save_student
from outrider.drafters.parts.networks.vocabulary import Vocabulary
from outrider.drafters.small_lm import SmallLM
from outrider.targets.passes.cached_model import CachedModel
from outrider.targets.passes.engine import use_engine
from outrider.targets.passes.first_layers import first_layers
from outrider.targets.transformers import TransformersTarget
from outrider.testing import Setup, output_distribution, target_distribution
from outrider.testing.tiny_targets import SAMPLED, VOCAB_SIZE, tiny_target
from outrider.verifiers.token import Token


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


def test_a_packed_target_lends_its_tables_too(folder: Path, target: Any) -> None:
    ids = torch.tensor([[3, 4, 5, 6]])
    right = first_layers(target.model, 2)(ids).logits
    use_engine(target.model, "packed")
    logits = read_student(folder, target)(ids).logits
    torch.testing.assert_close(logits, right, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("optimize", ["none", "packed"])
def test_a_student_with_a_vocabulary_writes_those_tokens_alone(
    optimize: str, target: Any, tmp_path: Path
) -> None:
    ids = torch.tensor([1, 4, 7, 30])
    short: Any = first_layers(target.model, 2)
    save_student(short, tmp_path, torch.float32, vocabulary=Vocabulary(31, ids))
    student = read_student(tmp_path, target, optimize)
    text = [3, 4, 5, 6]
    logits, whole = (CachedModel(model).feed(text, 4) for model in (student, short))
    torch.testing.assert_close(logits[:, ids], whole[:, ids], rtol=1e-5, atol=1e-5)
    known = torch.isin(torch.arange(31), ids)
    assert logits[:, ~known].eq(float("-inf")).all()
    words = target.model.get_output_embeddings().weight
    assert words.shape[0] == 31, "the target's own head was cut"


def test_a_student_with_a_vocabulary_is_lossless(tmp_path: Path) -> None:
    """Exactly: q is 0 for the tokens outside, and every branch of a round is added up."""
    target = tiny_target(VOCAB_SIZE)
    vocabulary = Vocabulary(VOCAB_SIZE, torch.tensor([0, 2]))
    save_student(first_layers(target.model, 2), tmp_path, vocabulary=vocabulary)
    drafter = bound(SmallLM(str(tmp_path)), target)
    setup = Setup(target, drafter, Token(), [0, 1], gamma=2, sampling=SAMPLED)
    exact = target_distribution(target, [0, 1], 3, SAMPLED, Token())
    probs = output_distribution(setup)
    assert probs.keys() <= exact.keys()
    assert max(abs(probs.get(text, 0.0) - p) for text, p in exact.items()) <= 1e-12
