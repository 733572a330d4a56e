"""What only a sweep has, and what none of its jobs can have, is said before the first one."""

from pathlib import Path
from typing import Any

import pytest

GENERATE = ("generate", "target=tabular", "prompt=[0]", "max_new_tokens=1", "drafter=none")
JOBLIB = "# @package _global_\ndefaults:\n  - override /hydra/launcher: joblib\n"


@pytest.fixture(autouse=True)
def presets(tmp_path: Path) -> None:
    """Of a user's own: experiments that choose a launcher and set a number, and a sweeper."""
    folder = tmp_path / "own" / "experiment"
    folder.mkdir(parents=True)
    (folder / "par.yaml").write_text(JOBLIB)
    sweeper = tmp_path / "own" / "hydra" / "sweeper" / "mine.yaml"
    sweeper.parent.mkdir(parents=True)
    sweeper.write_text("_target_: hydra_plugins.mine.Mine\n")
    (folder / "few.yaml").write_text("# @package _global_\ngamma: 2\n")


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("+experiment=few,par",), "job 1: hydra/launcher='joblib': expected hydra/launcher=jobl"),
        (("gamma=1,2", "hydra.sweep.subdir=x"), "subdir=x: jobs 0 and 1 would share a folder"),
        (("gamma=1,2,1", "hydra.sweep.subdir=./${gamma}"), "subdir=./1: jobs 0 and 2 would share"),
    ],
)
def test_settings_that_no_job_can_have_end_a_sweep_before_its_first_job(
    run: Any, words: tuple[str, ...], line: str
) -> None:
    assert line in run.refused(*GENERATE, "-m", "-cd", "own", *words)
    assert not Path("multirun").exists()


def test_a_sweep_continues_in_its_own_folder_and_in_no_other_sweeps(run: Any) -> None:
    sweep = (*GENERATE, "-m", "hydra.sweep.dir=swept")
    file = Path("swept/0/.hydra/overrides.yaml")
    run.done(*sweep, "gamma=1,2")
    file.write_text(file.read_text() + "- resume=true\n")  # as a comparison's that went on
    run.done(*sweep, "gamma=1,2,3")
    before = file.read_text()
    for words in (("gamma=3,4",), ("gamma=1", "drafter=bigram")):
        assert "swept/0: it is of a job with other settings" in run.refused(*sweep, *words)
    own = ("-cd", "own", "hydra/sweeper=mine", "gamma=1")
    assert "expected an empty folder where hydra/sweeper=mine" in run.refused(*sweep, *own)
    assert file.read_text() == before


@pytest.mark.parametrize(
    ("word", "line"),
    [
        ("hydra/launcher=joblib", "hydra/launcher=joblib: no such use in a single run"),
        ("+experiment=par", "hydra/launcher=joblib: no such use in a single run"),
        ("hydra.sweep.dir=x", "hydra.sweep.dir=x: no such use in a single run"),
        ("gamma=2", ""),
    ],
)
def test_settings_of_sweeps_are_said_to_change_no_single_run(
    run: Any, word: str, line: str
) -> None:
    status, _, said = run(*GENERATE, "-cd", "own", word)
    assert status == 0 and said.startswith(line) and said.count("\n") == bool(line)


def test_paths_are_those_of_the_folder_where_a_command_is_run(
    run: Any, quick: list[str], folder: Path
) -> None:
    (data,) = (word.partition("=")[2] for word in quick if word.startswith("data.path"))
    Path("own.jsonl").write_bytes(Path(data).read_bytes())
    words = [word for word in quick if not word.startswith("data.path")]
    report = "reports=[{report: json_lines, path: logs/lines.jsonl}]"
    run.done("compare", *words, "data.path=own.jsonl", report, "hydra.job.chdir=true")
    assert Path("logs/lines.jsonl").is_file()
    Path("prompt.txt").write_text("the cat")
    text = (
        "target=transformers",
        f"target.model={folder}",
        "drafter=suffix",
        "drafter.memory=kept",
    )
    run.done("generate", *text, "prompt=@prompt.txt", "max_new_tokens=1", "hydra.job.chdir=true")
    assert Path("kept").is_file()
