"""Weights are recognised by their files, as long as nothing has changed since they were loaded."""

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from outrider import TargetError
from outrider.targets import weight_files as weight_files_module
from outrider.targets.transformers import TransformersTarget
from outrider.targets.weight_files import ADAPTER as SETTINGS
from outrider.targets.weight_files import check_files, read_ahead, weight_files

WEIGHTS = "model.safetensors"


@pytest.fixture
def copied(folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(folder, tmp_path / "model"))


def test_the_files_of_folders_adapters_and_gguf(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "peft", ModuleType("peft"))  # only asked whether it is there
    (tmp_path / SETTINGS).write_text(f'{{"base_model_name_or_path": "{folder}"}}')
    for name in ("b.bin", "a.safetensors", "readme.md"):
        (tmp_path / name).touch()
    own = [tmp_path / "a.safetensors", tmp_path / "b.bin"]
    assert weight_files(str(tmp_path)) == [*own, folder / WEIGHTS]
    assert weight_files(str(tmp_path / "readme.md")) == [tmp_path / "readme.md"]
    assert weight_files("nobody/nothing") == []


def test_the_files_of_a_hub_id(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = str(folder / "config.json")
    monkeypatch.setattr("huggingface_hub.try_to_load_from_cache", lambda *_: config)
    assert weight_files("owner/name") == [folder / WEIGHTS]


POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:a\nsize 1\n"
NO_TEXTS = {
    "it is empty": lambda _: b"",
    "a pointer of git lfs": lambda _: POINTER,
    "expected text in UTF-8": lambda content: content.decode().encode("utf-16"),
    "without a byte order mark": lambda content: b"\xef\xbb\xbf" + content,
    "Expecting|Unterminated": lambda content: content[:-8],
}
NO_WEIGHTS = {
    "it is empty": lambda _: b"",
    "a pointer of git lfs": lambda _: POINTER,
    "Error while deserializing header": lambda content: content[:-8],
}
TEXTS = ("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json")


@pytest.mark.parametrize(
    ("name", "fault", "damage"),
    [
        *((name, *damage) for name in TEXTS for damage in NO_TEXTS.items()),
        *((WEIGHTS, *damage) for damage in NO_WEIGHTS.items()),
    ],
)
def test_a_damaged_file_of_a_folder_is_named(
    copied: Path, name: str, fault: str, damage: Callable[[bytes], bytes]
) -> None:
    """Transformers passes over some, such as the file with the ids that end a text."""
    (copied / name).write_bytes(damage((copied / name).read_bytes()))
    with pytest.raises(TargetError, match=rf"^model='.*': {name}: .*({fault})[^\n]*$"):
        TransformersTarget(str(copied))


def test_an_index_and_a_gguf_file_are_looked_at_and_files_that_nobody_reads_are_not(
    copied: Path,
) -> None:
    (copied / "pytorch_model.bin").write_bytes(POINTER)
    part, index = copied / "model-00001-of-00001.safetensors", copied / f"{WEIGHTS}.index.json"
    part.write_bytes(POINTER)
    index.write_text('{"metadata": {}}')
    assert TransformersTarget(str(copied)).vocab_size == 31
    (copied / WEIGHTS).rename(part)
    with pytest.raises(TargetError, match=r"index\.json: expected the file of each tensor in"):
        check_files(copied)
    index.write_text(f'{{"weight_map": {{"x": "{part.name}"}}}}')
    (copied / "model-00001-of-00002.safetensors").write_bytes(POINTER)
    check_files(copied)
    part.write_bytes(POINTER)
    with pytest.raises(TargetError, match=r": model-00001-of-00001\.safetensors: a pointer"):
        check_files(copied)
    (copied / "x.gguf").write_bytes(POINTER)
    with pytest.raises(TargetError, match=r"x\.gguf: a pointer"):
        TransformersTarget(str(copied / "x.gguf"))


def test_copies_and_loadings_have_one_fingerprint(folder: Path, copied: Path) -> None:
    first, again, copy = (TransformersTarget(str(name)) for name in (folder, folder, copied))
    assert first.fingerprint() == again.fingerprint() == copy.fingerprint()


@pytest.mark.parametrize("setting", [{"dtype": "bfloat16"}, {"quantize": "int8"}])
def test_precision_is_part_of_it(folder: Path, setting: dict[str, Any]) -> None:
    exact, other = TransformersTarget(str(folder)), TransformersTarget(str(folder), **setting)
    assert exact.fingerprint() != other.fingerprint()


def other_value(target: TransformersTarget, _: Path) -> None:
    with torch.no_grad():
        target.model.get_input_embeddings().weight[0, 0] += 1


def other_file(_: TransformersTarget, weights: Path) -> None:
    os.utime(weights, ns=(0, 0))


@pytest.mark.parametrize("change", [other_value, other_file])
def test_after_a_change_the_weights_themselves_count(
    copied: Path, change: Callable[[TransformersTarget, Path], None]
) -> None:
    one, other = TransformersTarget(str(copied)), TransformersTarget(str(copied))
    first = one.fingerprint()
    change(other, copied / WEIGHTS)
    assert other.fingerprint() != first


def test_files_are_asked_for_ahead(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(weight_files_module, "STEP", 4096)
    monkeypatch.setattr(os, "posix_fadvise", lambda *a: asked.append(a[1:3]))
    weights = [folder / WEIGHTS]
    weight_files_module.ask_for([*weights, folder / "gone"])
    assert asked == [(start, 4096) for start in range(0, weights[0].stat().st_size, 4096)]
    asked.clear()
    size = weights[0].stat().st_size
    monkeypatch.setattr(os, "sysconf", lambda name: 2 if name == "SC_PHYS_PAGES" else size)
    read_ahead(weights)
    assert not asked
