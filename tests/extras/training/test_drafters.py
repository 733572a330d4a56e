"""The command trains each family from scratch, and its drafter can use what was written."""

import json
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from outrider.drafters.small_lm import SmallLM
from outrider.extras.training.drafters import measure_drafter

SMALL = [
    "recipe.texts=12", "recipe.held_out=2", "max_new_tokens=12", "recipe.schedule.epochs=1",
    "recipe.schedule.batch=4", "recipe.schedule.evaluate=3",
]  # fmt: skip
KINDS = {"medusa": [], "small_lm": ["recipe.options.layers=2"]}
"""A family of each kind, and its options: a network on states, and a whole model."""


@pytest.fixture(scope="module")
def shared_texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the first family that is trained keeps its texts, for the others to learn from."""
    return tmp_path_factory.mktemp("texts") / "texts.jsonl"


@pytest.mark.parametrize("family", KINDS)
def test_a_family_is_trained_and_used(
    family: str, run: Any, folder: Path, shared_texts: Path, tmp_path: Path
) -> None:
    settings = ["target=transformers", f"target.model={folder}"]
    path = tmp_path / "made"
    out = [f"out={path}", f"hydra.run.dir={tmp_path / 'run'}"]
    log = tmp_path / "log.jsonl"
    more = [*SMALL, f"recipe.file={shared_texts}", "recipe.vocabulary=25", *KINDS[family]]
    more.append(f"reports=[{{report: json_lines, path: {log}}}]")
    printed = run.done("train", f"drafter={family}", *settings, *more, *out)
    assert "alpha" in printed and "block_efficiency" in printed
    facts = json.loads((path / "facts.json").read_text())
    assert (facts["texts"], facts["held-out texts"], facts["family"]) == (12, 2, family)
    card = (path / "README.md").read_text()
    assert f"| texts | {facts['texts']} |" in card and "held_out" in card
    assert f"outrider train drafter={family} " in card and "recipe.texts=12" in card
    assert str(tmp_path) not in facts["command"]
    assert facts["target"] == folder.name and len(facts["target's weights"]) == 16
    assert f"torch {version('torch')}" in facts["versions"]
    if family == "medusa":
        states = tmp_path / "run" / "states"
        counts = [len([*states.glob(f"{part}/*.safetensors")]) for part in ("learned", "held_out")]
        assert counts == [12, 2]
    assert f"| date | {datetime.now(UTC):%Y-%m-}" in card and "| machine | " in card
    begun, *logged = map(json.loads, log.read_text().splitlines())
    assert begun["settings"]["recipe.texts"] == "12" and logged[-1]["step"] == facts["steps"]
    assert {"loss", "held_out", "alpha"} <= logged[-1]["figures"].keys()
    option = "model" if family == "small_lm" else "path"
    use = [f"drafter={family}", f"drafter.{option}={path}", "max_new_tokens=8"]
    run.done("generate", *settings, *use, "prompt=the cat sat")


@pytest.mark.parametrize("settings", [[], ["writer={quantize: int8}"]])
def test_texts_may_be_written_with_other_settings(
    settings: list[str], run: Any, folder: Path, tmp_path: Path
) -> None:
    target = ["target=transformers", f"target.model={folder}", "target.optimize=packed"]
    log = tmp_path / "log.jsonl"
    command = ["train", "drafter=bigram", *target, *SMALL[:3], *settings]
    command.append(f"reports=[{{report: json_lines, path: {log}}}]")
    run.done(*command, f"hydra.run.dir={tmp_path}")
    assert json.loads(log.read_text().splitlines()[-1])["figures"].keys() >= {"alpha"}
    written_by = json.loads((tmp_path / "texts.jsonl.origin.json").read_text())
    learned_from = json.loads((tmp_path / "training.json").read_text())["facts"]
    is_same = written_by["target's weights"] == learned_from["target's weights"]
    assert is_same == (not settings)


@pytest.mark.parametrize("answers", [True, False])
def test_a_store_is_written_and_used(
    answers: bool, run: Any, folder: Path, data: Path, tmp_path: Path
) -> None:
    settings = ["target=transformers", f"target.model={folder}"]
    path = tmp_path / "store"
    few = ["recipe.texts=6", "recipe.held_out=2", "max_new_tokens=16"]
    own = [f"recipe.answers={answers}", "data=jsonl", f"data.path={data}", f"out={path}"]
    assert "alpha" in run.done("train", "drafter=rest", *settings, *few, *own)
    facts = json.loads((path / "facts.json").read_text())
    assert (facts["texts"], facts["held-out texts"]) == ((6, 2) if answers else (3, 2))
    use = ["drafter=rest", f"drafter.path={path}", "prompt=the cat", "max_new_tokens=8"]
    assert run("generate", *settings, *use)[0] == 0


def test_the_figures_of_a_drafter_that_is_always_right(target: Any, texts: Any) -> None:
    figures = measure_drafter(target, SmallLM(target.model), texts, gamma=3)
    assert figures["alpha"] == pytest.approx(1, abs=1e-3)
    assert figures["block_efficiency"] == pytest.approx(3.6, abs=0.4)
