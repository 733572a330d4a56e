"""An interrupted training continues, and only with the settings that it was started with."""

import json
from pathlib import Path
from typing import Any

import pytest

from outrider import ConfigError
from outrider.data.prompts import Prompt
from outrider.extras.training.identity import FILE, begin, finish, identity, unfinished
from outrider.extras.training.progress import CHECKPOINT
from outrider.targets.tabular import TabularTarget

PROMPTS = [Prompt("1", "x", ("the cat",))]


def test_another_run_in_the_folder_is_named(target: Any, tmp_path: Path) -> None:
    settings = {"recipe": {"texts": 5}, "sampling": {"seed": 0}}
    facts = identity(settings, target, PROMPTS)
    begin(tmp_path, facts)
    begin(tmp_path, facts)  # it continues
    with pytest.raises(ConfigError, match=r"sampling\.seed=1: expected 0, as in .*training\.json"):
        begin(tmp_path, {**facts, "sampling": {"seed": 1}})
    for change, other in (
        ("data's prompts=", identity(settings, target, [])),
        ("target's weights=", identity(settings, TabularTarget(4), PROMPTS)),
    ):
        with pytest.raises(ConfigError, match=change):
            begin(tmp_path, other)
    (tmp_path / FILE).write_text("{")
    with pytest.raises(ConfigError, match=r"training\.json: damaged"):
        begin(tmp_path, facts)


def test_the_newest_unfinished_run_is_found(target: Any, tmp_path: Path) -> None:
    facts = identity({}, target, PROMPTS)
    for name in ("a", "b", "without progress"):
        (tmp_path / name).mkdir()
        begin(tmp_path / name, facts)
    for name in ("a", "b"):
        (tmp_path / name / "texts.jsonl").touch()
    (tmp_path / "without progress" / "train.log").touch()
    finish(tmp_path / "b")
    assert unfinished(tmp_path, facts) == tmp_path / "a"
    assert unfinished(tmp_path, {**facts, "gamma": 3}) is None
    finish(tmp_path / "a")
    assert unfinished(tmp_path, facts) is None


@pytest.fixture
def words_of_train(folder: Path, tmp_path: Path) -> tuple[str, ...]:
    return (
        "train", "drafter=medusa", "target=transformers", f"target.model={folder}", "chat=false",
        "max_new_tokens=6", "question_tokens=4", "recipe.texts=8", "recipe.held_out=2",
        "recipe.vocabulary=20", "recipe.schedule.epochs=2", "recipe.schedule.batch=4",
        "recipe.schedule.evaluate=2", f"out={tmp_path / 'out'}",
    )  # fmt: skip


def test_a_training_that_broke_off_says_how_to_go_on(
    run: Any, words_of_train: tuple[str, ...], tmp_path: Path
) -> None:
    from faulty import FAULTS

    from outrider.extras.training import drafters

    inner, calls = drafters.measure_drafter, list[int]()

    def breaks(*rest: Any) -> Any:
        calls.append(1)
        if len(calls) == 2:
            FAULTS["SIGTERM"]()
        return inner(*rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(drafters, "measure_drafter", breaks)
        status, _, err = run(*words_of_train, "hydra.run.dir=runs/a")
    assert status == 143
    assert f"the same command with hydra.run.dir={tmp_path / 'runs' / 'a'} continues" in err
    assert (tmp_path / "runs" / "a" / CHECKPOINT).is_file()
    assert not (tmp_path / "out").exists()
    status, _, err = run(*words_of_train, "hydra.run.dir=runs/a", "recipe.vocabulary=19")
    assert "recipe.vocabulary=19: expected 20, as in" in err
    status, _, err = run(*words_of_train, "hydra.run.dir=runs/b")
    assert "an unfinished run of this command is in" in err
    assert run(*words_of_train, "hydra.run.dir=runs/a")[0] == 0
    assert json.loads((tmp_path / "runs" / "a" / FILE).read_text())["finished"]
    curves = [(tmp_path / "runs" / name / "curve.jsonl").read_text() for name in "ab"]
    assert curves[0] == curves[1]
