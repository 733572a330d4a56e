"""Students are written as models of their own, which give the same logits everywhere."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny.drafters import bound
from tokenizers import AddedToken
from transformers import AutoModelForCausalLM

from outrider import ConfigError, Sampling
from outrider.drafters.pard import Pard
from outrider.drafters.parts.networks import student
from outrider.drafters.small_lm import SmallLM
from outrider.extras.serving.student_checkpoint import (
    spare_token,
    write_parallel_model,
    write_small_model,
)
from outrider.targets.transformers import TransformersTarget
from outrider.testing.tiny_targets import draft_after

TEXT = [3, 4, 5]
SAMPLED = Sampling(temperature=1.0)


@pytest.fixture
def target(llama: Any, words: Any) -> TransformersTarget:
    """A target with two more rows than its tokenizer has tokens."""
    return TransformersTarget(llama(vocab_size=len(words) + 2), words)


def load(folder: Path) -> Any:
    auto: Any = AutoModelForCausalLM
    return auto.from_pretrained(folder).eval()


@torch.no_grad()
def test_a_parallel_student_has_its_mask_among_the_targets_tokens(
    target: TransformersTarget, llama: Any, words: Any, tmp_path: Path
) -> None:
    small = llama(seed=1, num_hidden_layers=1, vocab_size=len(words) + 2)
    student.save_student(small, tmp_path / "trained", mask=torch.randn(16))
    write_parallel_model(tmp_path / "trained", target, tmp_path / "whole")
    config = json.loads((tmp_path / "whole" / "config.json").read_text())
    assert config["pard_token"] == len(words) and config["vocab_size"] == len(words) + 2
    assert student.MARK not in config and not config["tie_word_embeddings"]
    trained, whole = student.read_student(tmp_path / "trained", target), load(tmp_path / "whole")
    rows = [
        model(torch.tensor([[*TEXT, *[model.config.pard_token] * 3]])).logits
        for model in (trained, whole)
    ]
    torch.testing.assert_close(rows[1], rows[0], rtol=1e-5, atol=1e-5)
    drafts = []
    for name in ("trained", "whole"):
        drafter = bound(Pard(str(tmp_path / name)), target)
        drafts.append(draft_after(drafter, target, TEXT, 4))
    assert drafts[0].tokens == drafts[1].tokens
    for one, other in zip(*(draft.probs for draft in drafts), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


def test_a_whole_small_model_is_no_student(
    target: TransformersTarget, llama: Any, words: Any, tmp_path: Path
) -> None:
    small = llama(seed=1, num_hidden_layers=1, vocab_size=len(words) + 2)
    student.save_student(small, tmp_path / "trained")
    write_small_model(tmp_path / "trained", target, tmp_path / "whole")
    assert not student.borrows(tmp_path / "whole")
    SmallLM(str(tmp_path / "whole")).bind(target)


def test_the_mask_replaces_a_token_that_texts_lack(
    target: TransformersTarget, llama: Any, words: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert spare_token(target) == len(words)
    full = TransformersTarget(llama(vocab_size=len(words)), words)
    with pytest.raises(ConfigError, match="drafter pard: expected a target whose tokenizer has"):
        spare_token(full)
    added = {7: _added("<a>"), 9: _added("<b>"), 8: _added("<c>"), 11: _added("x", special=False)}
    monkeypatch.setattr(type(words), "added_tokens_decoder", property(lambda _: added))
    monkeypatch.setattr(words, "chat_template", "<b> {{ messages }}")
    assert spare_token(full) == 8
    full.tokenizer = None
    with pytest.raises(ConfigError, match="drafter pard"):
        spare_token(full)


def _added(content: str, *, special: bool = True) -> Any:
    return AddedToken(content, special=special)
