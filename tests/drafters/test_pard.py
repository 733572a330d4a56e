"""PARD: one pass drafts what a pass for each token would, from AMD's folders and our own."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny.drafters import assert_paths_are_followed, bound

from outrider import ConfigError, Sampling
from outrider.drafters.pard import Pard
from outrider.drafters.parts.networks.student import MASK_ID, save_student
from outrider.targets.transformers import TransformersTarget
from outrider.testing.tiny_targets import draft_after

SAMPLED = Sampling(temperature=1.0)
MASK = 7


def place_by_place(model: Any, text: list[int], count: int, mask: int = MASK) -> list[Any]:
    """Returns the distribution of each token, with as many masks before it as tokens."""
    with torch.no_grad():
        logits = [model(torch.tensor([text + [mask] * i])).logits[0, -1] for i in range(count)]
    return [row.softmax(-1) for row in logits]


@pytest.fixture
def model(llama: Any) -> Any:
    small = llama(seed=3).double()
    small.config.update({MASK_ID: MASK})
    return small


@pytest.mark.parametrize("tree", [None, "2x2", "top:2x1x2"])
def test_one_pass_drafts_the_tokens_of_a_pass_for_each_place(
    llama: Any, model: Any, tree: Any
) -> None:
    target, drafter = TransformersTarget(llama().double()), Pard(model, tree=tree)
    drafter.bind(target)
    passes, other = list[int](), copy.deepcopy(model)
    model.register_forward_hook(lambda *_: passes.append(1))

    def exact(text: list[int], path: list[int]) -> Any:
        return place_by_place(other, text, len(path) + 1)[-1]

    assert_paths_are_followed(drafter, target, exact, [3, 4, MASK])
    assert len(passes) == 6  # one for each draft


def test_a_folder_of_amds_kind(llama: Any, words: Any, model: Any, tmp_path: Path) -> None:
    model.float().save_pretrained(tmp_path)
    words.save_pretrained(tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["pard_token"] == MASK
    target, drafter = TransformersTarget(llama(), words), Pard(str(tmp_path))
    drafter.bind(target)
    draft = draft_after(drafter, target, [3, 4, 5], 4)
    expected = torch.stack(place_by_place(model, [3, 4, 5], 4))
    torch.testing.assert_close(torch.stack(draft.probs), expected.double(), rtol=1e-4, atol=1e-5)


def test_a_folder_without_tables_has_a_mask_of_its_own(llama: Any, tmp_path: Path) -> None:
    model, target = llama(seed=3), TransformersTarget(llama())
    mask = torch.randn(16)
    save_student(model, tmp_path, torch.float32, mask=mask)
    drafter = bound(Pard(str(tmp_path)), target)
    draft = draft_after(drafter, target, [3, 4], 3)
    for module in ("input", "output"):
        table = getattr(target.model, f"get_{module}_embeddings")()
        getattr(model, f"set_{module}_embeddings")(table)
    words = model.get_input_embeddings()(torch.tensor([[3, 4]]))
    with torch.no_grad():
        embeds = torch.cat([words, mask.expand(1, 2, -1)], dim=1)
        expected = model(inputs_embeds=embeds).logits[0, 1:].softmax(-1)
    torch.testing.assert_close(torch.stack(draft.probs), expected.double(), rtol=1e-4, atol=1e-5)


def test_a_draft_ends_with_the_window(llama: Any) -> None:
    model = llama(max_position_embeddings=6)
    model.config.update({MASK_ID: MASK})
    target, drafter = TransformersTarget(llama()), Pard(model)
    drafter.bind(target)
    for length, count in ((3, 4), (5, 2), (6, 1), (7, 0)):
        draft = draft_after(drafter, target, [3] * length, 5)
        assert len(draft) == count


@pytest.mark.parametrize("token", [None, 31])
def test_a_model_without_a_mask_token_is_refused(llama: Any, token: Any) -> None:
    model = llama()
    model.config.update({MASK_ID: token})
    with pytest.raises(ConfigError, match=r"pard_token of drafter\.model=.*an id below 31"):
        Pard(model).bind(TransformersTarget(llama()))
