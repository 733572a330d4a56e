"""`outrider check`: the checks of a part and a target's self-test are printed."""

from pathlib import Path
from typing import Any

import pytest
from transformers import BloomConfig, BloomForCausalLM


@pytest.fixture(scope="module")
def bloom(tmp_path_factory: pytest.TempPathFactory, words: Any) -> Path:
    """A folder with a tiny model that can't read trees, and a tokenizer."""
    folder = tmp_path_factory.mktemp("tiny-bloom")
    sizes = {"vocab_size": len(words), "hidden_size": 16, "n_layer": 2, "n_head": 2}
    BloomForCausalLM(BloomConfig(**sizes, eos_token_id=1)).save_pretrained(folder)
    words.save_pretrained(folder)
    return folder


def test_check_lists_the_checks_that_held(run: Any) -> None:
    out = run.done("check", "drafter=none", "thorough=true")
    assert "NO" not in out and "every length" in out
    count = out.count(" yes  ")
    assert f"\nnone is lossless: {count} of {count} checks passed (" in out
    assert "lenient is LOSSY, and keeps the bound" in run.done("check", "verifier=lenient")


def test_check_prints_the_self_test_of_a_target(run: Any, folder: Path) -> None:
    out = run.done("check", "target=transformers", f"target.model={folder}")
    assert "self-test of LlamaForCausalLM" in out
    assert "the first layers work as a model" in out
    assert out.count("holds") == 6
    assert "NO" not in out
    out = run.done("check", "target=tabular", "target.encoder=true")
    assert "self-test" not in out


def test_check_names_refused_abilities_and_their_reasons(run: Any, bloom: Path) -> None:
    options = ("target=transformers", f"target.model={bloom}")
    out = run.done("check", *options)
    assert "it can't read a tree" in " ".join(out.split())
    assert "refused" in out
