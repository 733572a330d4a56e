"""Weights as other libraries publish and wrap them are loaded, or refused in one line."""

import copy
import json
import os
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from tiny.wrapped import Adapted, rounded, write_fields, write_gguf

import outrider
from outrider import ConfigError, TargetError
from outrider.drafters.small_lm import SmallLM
from outrider.extras.cpu.quantized import Quantized
from outrider.targets import gguf
from outrider.targets.stored_tests import stored_self_test
from outrider.targets.transformers import TransformersTarget

PROMPT = [4, 5, 6, 4, 5, 6]


def text(target: Any, drafter: Any = "none") -> list[int]:
    """Returns the tokens of a short greedy text."""
    return outrider.generate(target, PROMPT, drafter, max_new_tokens=8).tokens


def test_weights_that_wrap_others_are_run_as_they_are(llama: Any, words: Any) -> None:
    target = TransformersTarget(rounded(llama()), words)
    alone = text(target)
    for drafter in ("prompt_lookup", "small_lm", "early_exit"):
        assert text(target, drafter) == alone
    other = TransformersTarget(rounded(llama(seed=1)), words)
    assert target.fingerprint() != other.fingerprint()
    stored_self_test(target.model)
    with pytest.raises(ConfigError, match=r"optimize='packed': expected none, .* are Rounded"):
        TransformersTarget(rounded(llama()), words, optimize="packed")
    with pytest.raises(ConfigError, match=r"drafter quantized: expected plain weights, .*Rounded"):
        text(target, Quantized())


@pytest.mark.parametrize("optimize", ["none", "packed"])
def test_a_model_that_wraps_another_is_run_by_transformers(
    llama: Any, words: Any, optimize: Any
) -> None:
    target = TransformersTarget(Adapted(llama()), words, optimize=optimize)
    alone = text(target)
    assert alone == text(TransformersTarget(llama(), words))
    for drafter in ("prompt_lookup", "early_exit", "quantized"):
        assert text(target, drafter) == alone


@pytest.fixture
def adapter(folder: Path, tmp_path: Path) -> Path:
    """A folder with an adapter's settings alone."""
    settings = json.dumps({"base_model_name_or_path": str(folder)})
    (tmp_path / "adapter_config.json").write_text(settings)
    return tmp_path


@pytest.fixture
def sizes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Stands in for PEFT, and notes how many tokens a model has when an adapter is added.

    The adapter's changes turn the head's weights round; one with a tokenizer changes no weights.
    """
    seen = list[int]()

    def added(model: Any, path: str) -> Any:
        seen.append(model.get_input_embeddings().num_embeddings)
        with torch.no_grad():
            model.lm_head.weight.neg_()
        changes_none = (Path(path) / "tokenizer_config.json").exists()
        return SimpleNamespace(**{} if changes_none else {"merge_and_unload": lambda: model})

    fake: Any = ModuleType("peft")
    fake.PeftModel = SimpleNamespace(from_pretrained=added)
    fake.__spec__ = ModuleSpec("peft", None)
    monkeypatch.setitem(sys.modules, "peft", fake)
    return seen


def test_an_adapter_is_added_to_its_model(
    adapter: Path, folder: Path, sizes: list[int], words: Any, capsys: Any
) -> None:
    assert text(str(adapter)) != text(str(folder))
    assert f"is an adapter, added to {folder}" in capsys.readouterr().err.replace("\n", "")
    more = copy.deepcopy(words)
    more.add_tokens(["<one more>"])
    more.save_pretrained(adapter)
    with pytest.raises(TargetError, match="an adapter without changes of weights"):
        TransformersTarget(str(adapter))
    assert sizes == [len(words), len(words) + 1]


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ('{"base_model_name_or_path": "/gone"}', "there is no /gone, which adapter_config"),
        (
            '{"base_model_name_or_path": "a/b", "layer_replication": [[0, 2], [1, 2]]}',
            r"adapter_config\.json replicates layers: expected none",
        ),
        ('{"base_model_name_or_path": "a/b"}', "an adapter of a/b: it needs: pip install peft"),
    ],
)
def test_an_adapter_that_can_not_be_added_is_one_line(
    adapter: Path, monkeypatch: pytest.MonkeyPatch, settings: str, line: str
) -> None:
    monkeypatch.setitem(sys.modules, "peft", None)
    (adapter / "adapter_config.json").write_text(settings)
    with pytest.raises((ConfigError, TargetError), match=line):
        TransformersTarget(str(adapter))


def test_a_gguf_file_is_loaded_by_its_name(
    tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    write_gguf(tmp_path / "tiny.gguf")
    monkeypatch.chdir(tmp_path)
    convert, converted = gguf.convert, list[Path]()

    def noted(weights: Path, folder: Path, dtype: str) -> None:
        converted.append(weights)
        convert(weights, folder, dtype)

    monkeypatch.setattr(gguf, "convert", noted)
    written = outrider.generate("tiny.gguf", "the end", "none", max_new_tokens=8)
    line = "tiny.gguf: its weights were of 4.5 bits (Q4_0), and are dequantised"
    said = capsys.readouterr().err
    assert line in said and "it/s" not in said  # no bar of transformers' own
    target = TransformersTarget("tiny.gguf", optimize="none")
    drafted = outrider.generate(target, "the end", SmallLM("tiny.gguf"), max_new_tokens=8)
    assert drafted.tokens == written.tokens
    assert "quantization_config" not in target.model.config.to_dict()
    assert len(converted) == 1, "it is converted once, and kept"
    os.utime("tiny.gguf", ns=(1, 1))
    TransformersTarget("tiny.gguf")
    assert len(converted) == 2, "the file has changed since"
    assert TransformersTarget("tiny.gguf", dtype="bfloat16").model.dtype is torch.bfloat16


def test_a_gguf_file_that_is_missing_or_damaged_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(ConfigError, match="or a folder or GGUF file that exists"):
        outrider.generate("gone.gguf", "the end")
    damaged = tmp_path / "damaged.gguf"
    damaged.write_bytes(b"GGUF" + bytes(40))
    with pytest.raises(TargetError, match=r"damaged\.gguf' can't be loaded: ") as caught:
        TransformersTarget(str(damaged))
    assert "\n" not in str(caught.value)
    write_fields(damaged, "llama", {"block_count": 2**31 - 1}, {})
    with pytest.raises(TargetError, match=r"block_count=2147483647: expected at most 2048"):
        TransformersTarget(str(damaged))
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(ConfigError, match=r"a GGUF file needs: pip install gguf"):
        TransformersTarget(str(damaged))


PADDED = {"vocab_size": 40}


def test_a_loaded_draft_model_may_have_a_padded_vocabulary(llama: Any, words: Any) -> None:
    target = TransformersTarget(llama(), words)
    padded = llama(**PADDED)
    assert text(target, SmallLM(padded)) == text(target)
    assert text(target, SmallLM(TransformersTarget(padded, words))) == text(target)
    small, large = llama(vocab_size=30), llama(vocab_size=5000)
    for model in (small, large):
        with pytest.raises(ConfigError, match=r"drafter\.model=\(model, tokenizer\)"):
            text(target, SmallLM(model))


def test_a_draft_model_reads_ids_that_only_the_target_has(llama: Any, words: Any) -> None:
    target = TransformersTarget(llama(**PADDED), words)
    prompt = [4, 39, 5, 38]
    written = outrider.generate(target, prompt, "none", max_new_tokens=12).tokens
    for drafter in (SmallLM(llama()), SmallLM(llama(), tree="2x2")):
        rule = "token" if drafter.kind == "chain" else "without_replacement"
        drafted = outrider.generate(target, prompt, drafter, rule, max_new_tokens=12)
        assert drafted.tokens == written
