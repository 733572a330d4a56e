"""What is written for speculators trains a drafter here as the same texts and states do."""

import json
import re
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from outrider import ConfigError
from outrider.drafters.parts.networks.vocabulary import Vocabulary
from outrider.extras.training.learner import Setup, make_learner
from outrider.extras.training.rows import read_rows
from outrider.extras.training.speculators_data import read_frequencies
from outrider.extras.training.state_files import find_state_files, read_state_files
from outrider.extras.training.states import compute_states
from outrider.targets.transformers import TransformersTarget

FEW = ["recipe.texts=10", "recipe.held_out=2", "max_new_tokens=12"]
STEPS = ["recipe.schedule.epochs=1", "recipe.schedule.batch=4", "recipe.schedule.evaluate=3"]
EAGLE3 = "outrider.extras.training.feature_objectives:Eagle3Objective"
CPU = torch.device("cpu")


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


def test_a_drafter_learns_the_same_from_it(folder: Path, data: Path, console: Any) -> None:
    target = TransformersTarget(AutoModelForCausalLM.from_pretrained(folder))
    texts = read_rows(str(data), target, 12)
    setup = Setup(target, Vocabulary(target.vocab_size), 0)
    learner = make_learner(EAGLE3, {"steps": 2}, setup)
    places = (data.parent / "own", find_state_files([str(data)]))
    own = compute_states(target, texts, learner.reads, places[0], console)
    given = read_state_files(target, texts, learner.reads, places[1], 0)
    for pair in zip(own.batches(4, 0), given.batches(4, 0), strict=True):
        with torch.no_grad():
            right, loss = (learner.loss(batch.to(CPU, torch.float32)) for batch in pair)
        torch.testing.assert_close(loss, right, rtol=1e-2, atol=1e-3)  # half precision, and float32


def test_counts_of_a_gpu_are_told_from_a_damaged_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.serialization, "location_tag", lambda _: "cuda:0")
    torch.save({2: torch.tensor(3)}, tmp_path / "token_freq.pt")
    monkeypatch.undo()
    with pytest.raises(ConfigError, match="expected counts by token, below 31"):
        read_frequencies(tmp_path / "token_freq.pt", 31)


def test_frequencies_in_the_rows_choose_the_vocabulary(
    run: Any, model: list[str], data: Path, tmp_path: Path
) -> None:
    torch.save({5: 9, 30: 8, 7: 8, 2: 1}, data / "token_freq.pt")
    own = [f"recipe.rows={data}", f"out={tmp_path / 'made'}", "recipe.vocabulary=5"]
    place = f"hydra.run.dir={tmp_path / 'run'}"
    run.done("train", "drafter=medusa", *STEPS, *model, *FEW, *own, place)
    assert not (tmp_path / "run" / "states").exists()  # the rows have theirs
    known = Vocabulary.take_from(load_file(tmp_path / "made" / "model.safetensors"), 31).ids
    assert known.tolist() == [0, 2, 5, 7, 30]  # the most frequent, then the lowest ids


@pytest.mark.parametrize(
    ("found", "line"),
    [({31: 2}, "expected counts by token, below 31"), ([1], "expected counts by token")],
)
def test_other_frequencies_are_refused(found: Any, line: str, tmp_path: Path) -> None:
    torch.save(found, tmp_path / "token_freq.pt")
    with pytest.raises(ConfigError, match=line):
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
        ("data", "data=demo", "rows=.*: expected null with data, or rows without data"),
        ("few", "recipe.held_out=12", "rows=.*: expected more than the 12 rows that"),
        ("run", "draft_timeout=9", r"rows='\w+': expected 'others', as in .*rows\.json"),
    ):
        complaint = run.refused(*table, more, f"hydra.run.dir={tmp_path / where}")
        assert re.search(line, complaint), complaint


def test_layers_that_the_target_lacks(run: Any, model: list[str]) -> None:
    complaint = run.refused("train", "recipe=speculators", *model, "recipe.layers=[1,3]")
    assert "recipe.layers=[1, 3]: expected numbers from 0 to 2" in complaint
