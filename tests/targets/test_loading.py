"""Models from a folder: a missing or damaged one is reported in one line."""

import json
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from outrider import ConfigError, TargetError
from outrider.drafters.parts.networks.student import read_student
from outrider.drafters.small_lm import SmallLM
from outrider.targets import loading
from outrider.targets.transformers import TransformersTarget


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        *(
            ({"model": name}, f"model='{name}': expected a hub id")
            for name in ("./gone", "/gone/for/good", "gone", "a/b/c")
        ),
        ({"dtype": "int3"}, "dtype='int3': expected one of auto, float32"),
        *(
            ({"device": name}, rf"^device='{name}': expected one that is here \([^\n]*$")
            for name in ("warp", "xpu", "cuda:7")
        ),
        ({"quantization_config": {"load_in_4bit": True}}, r"can't be loaded: [^\n]*pip install"),
        ({"attn_implementation": "flash_attention_2"}, "FlashAttention2 .* installed"),
    ],
)
def test_wrong_settings_of_a_model_are_one_line(folder: Path, settings: Any, line: str) -> None:
    with pytest.raises((ConfigError, TargetError), match=line) as caught:
        TransformersTarget(**{"model": str(folder)} | settings)
    assert "\n" not in str(caught.value)


def copied_to(folder: Path, tmp_path: Path) -> tuple[Path, Path]:
    copied = tmp_path / "model"
    shutil.copytree(folder, copied)
    return copied, copied / "model.safetensors"


OWN_CODE = """
from pathlib import Path
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

Path("RAN").touch()

class Config(LlamaConfig):
    model_type = "own"

class Model(LlamaForCausalLM):
    config_class = Config

class Words(PreTrainedTokenizerFast): ...
"""
AUTO_MAP = {
    "AutoConfig": "own.Config",
    "AutoModelForCausalLM": "own.Model",
    "AutoTokenizer": ["own.Words", "own.Words"],
}
NAMES_CODE = {
    "config.json": {"model_type": "own"},
    "tokenizer_config.json": {"tokenizer_class": "Words"},
    "generation_config.json": {"custom_generate": "own"},
    "processor_config.json": {"processor_class": "own.Words"},
    "chat_template.json": {},
}
"""What the files of a folder may say beside an `auto_map`, of code that is in it."""


@pytest.fixture
def armed(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with code of its own, where the answer to every question is yes."""
    armed, _ = copied_to(folder, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.setattr("builtins.input", lambda *_: "y")
    (armed / "own.py").write_text(OWN_CODE.replace("RAN", str(tmp_path / "ran")))
    return armed


def name_code(folder: Path, file: str) -> None:
    path = folder / file
    entries = json.loads(path.read_text()) if path.is_file() else {}
    path.write_text(json.dumps(entries | {"auto_map": AUTO_MAP} | NAMES_CODE[file]))


@pytest.mark.parametrize("file", NAMES_CODE)
@pytest.mark.parametrize("role", ["target", "drafter", "student"])
def test_code_in_a_folder_does_not_run(armed: Path, file: str, role: str, llama: Any) -> None:
    name_code(armed, file)
    target = TransformersTarget(llama())
    with suppress(ConfigError):
        if role == "target":
            TransformersTarget(str(armed))
        elif role == "drafter":
            SmallLM(str(armed)).bind(target)
        else:
            read_student(armed, target)
    assert not (armed.parent / "ran").exists()


def test_code_in_a_folder_runs_where_a_setting_says_so(
    armed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = TransformersTarget(str(armed))
    for file in ("config.json", "tokenizer_config.json"):
        name_code(armed, file)
    with pytest.raises(ConfigError, match=r"comes with code of its own, .* trust_remote_code=true"):
        TransformersTarget(str(armed))
    own = TransformersTarget(str(armed), trust_remote_code=True)
    assert "code that comes with it may run" in capsys.readouterr().err
    assert own.encode("the cat") == plain.encode("the cat") and type(own.model).__name__ == "Model"
    before = own.fingerprint()
    (armed / "own.py").write_text(f"{OWN_CODE}# changed\n")
    assert TransformersTarget(str(armed), trust_remote_code=True).fingerprint() != before


@pytest.mark.parametrize(
    ("change", "key"),
    [({"rope_parameters": {"rope_type": "nope"}}, "nope"), ({"hidden_act": "wow"}, "wow")],
)
def test_a_name_that_is_unknown_is_named_with_its_file(
    folder: Path, tmp_path: Path, change: dict[str, Any], key: str
) -> None:
    copied, _ = copied_to(folder, tmp_path)
    path = copied / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(TargetError, match=f"does not know '{key}', which config.json asks for"):
        TransformersTarget(str(copied))
    for file in copied.glob("*token*"):
        file.unlink()
    with pytest.raises(ConfigError, match="expected files of a tokenizer in it, such as"):
        TransformersTarget(str(copied))


def test_weights_that_are_damaged_or_do_not_fit_are_named(folder: Path, tmp_path: Path) -> None:
    copied, weights = copied_to(folder, tmp_path)
    right = load_file(weights)
    for name, rows, line in (
        ("model.layers.2.mlp.up_proj.weight", None, r"1 missing keys .*, such as model\.layers\.2"),
        ("model.norm.weight", torch.ones(8), r"1 mismatched keys .*, such as .*model\.norm"),
    ):
        tensors = {
            key: tensor for key, tensor in (right | {name: rows}).items() if tensor is not None
        }
        save_file(tensors, weights, metadata={"format": "pt"})
        with pytest.raises(TargetError, match=line):
            TransformersTarget(str(copied))
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(TargetError, match=r": model\.safetensors: Error while deser[^\n]*$"):
        TransformersTarget(str(copied))


@pytest.mark.parametrize(
    ("found", "device", "expected"),
    [
        ("cuda", "auto", "cuda"),
        ("xpu", "auto", "xpu"),
        ("mps", "auto", "mps"),
        (None, "auto", "cpu"),
        ("xpu", "xpu:1", "xpu:1"),
        ("cuda", "cpu", "cpu"),
    ],
)
def test_a_model_is_loaded_onto_the_device_that_torch_names(
    folder: Path, monkeypatch: pytest.MonkeyPatch, found: str | None, device: str, expected: str
) -> None:
    """Weights go there at once, and keep the checkpoint's type, but for a CPU's."""
    asked: list[Any] = []

    def loaded(name: str, dtype: str, spread: Any, options: Any, stored_as: str) -> Any:
        asked.append((dtype, options["device_map"]))
        return torch.nn.Module(), None

    there = None if found is None else torch.device(found)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda **_: there)
    monkeypatch.setattr(torch, "empty", lambda size, device: None)  # as if the device were here
    monkeypatch.setattr(loading, "_from_pretrained", loaded)
    loading.load(str(folder), "auto", device)
    dtype = "float32" if expected == "cpu" else "auto"
    assert asked == [(dtype, {"": torch.device(expected)})]
