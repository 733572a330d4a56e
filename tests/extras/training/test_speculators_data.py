"""What is written for speculators has its layout; states of vLLM's are the target's own."""

import json
import re
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow
import pytest
import torch
from safetensors.torch import load_file, save_file

from outrider import ConfigError
from outrider.extras.training.generated_texts import Text
from outrider.extras.training.speculators_data import (
    find_state_files,
    read_frequencies,
    read_state_files,
    state_path,
    write_state_file,
)
from outrider.extras.training.states import BEST, Examples
from outrider.targets.passes.cached_model import HIDDEN

NAMES = (HIDDEN, f"{HIDDEN}.4", f"{HIDDEN}.2")
LAYERS = [2, 4]
SMALLER = {torch.bfloat16: 0.05, torch.float8_e4m3fn: 0.1, torch.float32: 1e-5}
"""How far from the target's the states of each precision are at most."""


def states_before_norms(model: Any, ids: list[int]) -> list[torch.Tensor]:
    """Returns the states before each layer, and those after the last one, without its norm."""
    found: list[torch.Tensor] = []
    decoder = model.get_decoder()
    parts = [*decoder.layers, decoder.norm]
    hooks = [part.register_forward_pre_hook(lambda _, x: found.append(x[0][0])) for part in parts]
    with torch.no_grad():
        model(torch.tensor([ids]))
    for hook in hooks:
        hook.remove()
    return found


def write_as_vllm_does(
    folder: Path, number: int, model: Any, ids: list[int], dtype: torch.dtype
) -> None:
    """Writes what vLLM's connector for hidden states writes, or that of hs-connectors (fp8)."""
    every = states_before_norms(model, ids)
    states = torch.stack([every[layer] for layer in (*LAYERS, len(every) - 1)], dim=1)
    tensors = {"token_ids": torch.tensor(ids)}
    if dtype is torch.float8_e4m3fn:
        scales = states.abs().amax(dim=(1, 2), keepdim=True) / torch.finfo(dtype).max
        tensors["hidden_states_scales"] = scales
        states = states / scales
    folder.mkdir(exist_ok=True)
    save_file(tensors | {"hidden_states": states.to(dtype)}, folder / f"hs_{number}.safetensors")


def is_right(examples: Examples, target: Any, within: float) -> bool:
    for batch in examples.batches(1, 0):
        with torch.no_grad():
            output = target.model(batch.ids, output_hidden_states=True)
        for name in NAMES:
            right = output.hidden_states[int(name.partition(".")[2] or -1)]
            if (batch.states[name].float() - right).abs().max() > within * right.abs().max():
                return False
        if within < 1e-3 and not torch.equal(batch.best, output.logits.argmax(-1)):
            return False
    return True


@pytest.mark.parametrize("dtype", SMALLER)
def test_files_of_vllm_hold_the_states_of_the_target(
    dtype: torch.dtype, target: Any, texts: list[Text], tmp_path: Path
) -> None:
    for number, text in enumerate(texts[:3]):
        write_as_vllm_does(tmp_path / "hidden_states", number, target.model, text.ids, dtype)
    folder = find_state_files([None, str(tmp_path)])
    assert folder == tmp_path / "hidden_states" == find_state_files([str(folder)])
    examples = read_state_files(target, texts[:3], NAMES, folder)
    assert is_right(examples, target, SMALLER[dtype])
    last = read_state_files(target, texts[:3], NAMES[:1], folder).read(2)
    assert last.keys() == {BEST, HIDDEN}  # whatever other layers there are


def test_a_file_that_is_written_has_vllms_tensors(
    target: Any, texts: list[Text], tmp_path: Path
) -> None:
    write_as_vllm_does(tmp_path / "its", 0, target.model, texts[0].ids, torch.float32)
    write_state_file(target, texts[0].ids, LAYERS, tmp_path / "hs_0.safetensors")
    own, right = (load_file(folder / "hs_0.safetensors") for folder in (tmp_path, tmp_path / "its"))
    assert own.keys() == right.keys()
    for name, tensor in right.items():
        assert own[name].dtype == tensor.dtype
        torch.testing.assert_close(own[name], tensor, rtol=1e-5, atol=1e-5)
    assert is_right(read_state_files(target, texts[:1], NAMES, tmp_path), target, 1e-5)


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"token_ids": torch.tensor([3, 4])}, "token_ids are those of another text than row 0"),
        ({"hidden_states": [0, 1, 1]}, r"hidden_states is \d+% away from the target's"),
    ],
)
def test_other_states_are_refused(
    change: dict[str, Any], line: str, target: Any, texts: list[Text], tmp_path: Path
) -> None:
    write_as_vllm_does(tmp_path, 0, target.model, texts[0].ids, torch.float32)
    path = state_path(tmp_path, 0)
    tensors = load_file(path)
    for name, value in change.items():
        is_tensor = isinstance(value, torch.Tensor)
        tensors[name] = value if is_tensor else tensors[name][:, value].contiguous()
    save_file(tensors, path)
    with pytest.raises(ConfigError, match=rf"hs_0\.safetensors: .*{line}"):
        read_state_files(target, texts[:1], NAMES, tmp_path)


FEW = ["recipe.texts=10", "recipe.held_out=2", "max_new_tokens=12"]
STEPS = ["recipe.schedule.epochs=1", "recipe.schedule.batch=4", "recipe.schedule.evaluate=3"]


@pytest.fixture
def model(folder: Path) -> list[str]:
    return ["target=transformers", f"target.model={folder}"]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the first test that needs the data writes them, for the others to copy."""
    return tmp_path_factory.mktemp("shared")


@pytest.fixture
def data(run: Any, model: list[str], shared: Path, tmp_path: Path) -> Path:
    """A folder that the recipe has written, beside the texts in it."""
    if not (shared / "data").exists():
        own = [f"out={shared / 'data'}", f"recipe.file={shared}/texts.jsonl"]
        printed = run.done("train", "recipe=speculators", *model, *FEW, *own)
        assert f"to use it: recipe.rows={shared / 'data'}" in printed.replace("\n", "")
    shutil.copytree(shared, tmp_path, dirs_exist_ok=True)
    return tmp_path / "data"


def test_the_files_are_as_speculators_names_them(data: Path, tmp_path: Path) -> None:
    lines = (tmp_path / "texts.jsonl").read_text().splitlines()
    texts = [json.loads(line) for line in lines]
    (file,) = json.loads((data / "state.json").read_text())["_data_files"]
    with pyarrow.ipc.open_stream(data / file["filename"]) as stream:
        rows = stream.read_all().to_pylist()
    assert [row["input_ids"] for row in rows] == [text["ids"] for text in texts]
    assert [row["seq_len"] for row in rows] == [len(text["ids"]) for text in texts]
    starts = [row["loss_mask"].index(1) for row in rows]
    assert starts == [text["start"] for text in texts]
    assert all(sum(row["loss_mask"]) == row["seq_len"] - row["loss_mask"].index(1) for row in rows)
    written = Counter(token for text in texts for token in text["ids"][text["start"] :])
    assert torch.load(data / "token_freq.pt", weights_only=True) == dict(written)
    for number, text in enumerate(texts):
        states = load_file(data / "hidden_states" / f"hs_{number}.safetensors")
        assert states["token_ids"].tolist() == text["ids"]
        assert states["hidden_states"].shape == (len(text["ids"]), 4, 16)


def test_frequencies_in_the_rows_choose_the_vocabulary(
    run: Any, model: list[str], data: Path, tmp_path: Path
) -> None:
    torch.save({5: 9, 30: 8, 7: 8, 2: 1}, data / "token_freq.pt")
    own = [f"recipe.rows={data}", f"out={tmp_path / 'made'}", "recipe.vocabulary=5"]
    place = f"hydra.run.dir={tmp_path / 'run'}"
    run.done("train", "drafter=medusa", *STEPS, *model, *FEW, *own, place)
    assert not (tmp_path / "run" / "states").exists()  # the rows have theirs
    known = load_file(tmp_path / "made" / "model.safetensors")["vocabulary"]
    assert known.tolist() == [0, 2, 5, 7, 30]  # the most frequent, then the lowest ids


def test_other_frequencies_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:  # those of a GPU are read
        patch.setattr(torch.serialization, "location_tag", lambda _: "cuda:0")
        torch.save({31: torch.tensor(2)}, tmp_path / "token_freq.pt")
    with pytest.raises(ConfigError, match="expected counts by token, below 31"):
        read_frequencies(tmp_path / "token_freq.pt", 31)
    (tmp_path / "token_freq.pt").write_text("nothing")
    with pytest.raises(ConfigError, match=r"token_freq\.pt: expected the counts of tokens \("):
        read_frequencies(tmp_path / "token_freq.pt", 31)


def test_rows_are_checked_before_anything_is_learned(
    run: Any, model: list[str], data: Path, tmp_path: Path
) -> None:
    table = ["train", "drafter=bigram", *model, *FEW[:2], f"recipe.rows={data}"]
    assert run(*table, f"hydra.run.dir={tmp_path / 'run'}", f"out={tmp_path / 'table'}")[0] == 0
    facts = json.loads((tmp_path / "table" / "facts.json").read_text())
    assert (facts["texts"], facts["held-out texts"]) == (10, 2)
    (tmp_path / "run" / "rows.json").write_text('{"rows": "others"}')
    for where, more, line in (
        ("few", "recipe.held_out=12", "rows=.*: expected more than the 12 rows that"),
        ("run", "draft_timeout=9", r"rows='\w+': expected 'others', as in .*rows\.json"),
    ):
        complaint = run.refused(*table, more, f"hydra.run.dir={tmp_path / where}")
        assert re.search(line, complaint), complaint
