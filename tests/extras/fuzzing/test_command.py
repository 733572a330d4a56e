"""`outrider fuzz` reports what it ran, and prints the command that repeats a failure."""

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from outrider.extras.fuzzing.example import Example
from outrider.extras.fuzzing.run import Outcome
from outrider.extras.fuzzing.tally import Tally


def test_fuzzing_reports_its_runs(run: Any, tmp_path: Path) -> None:
    assert "10 runs in" in run.done("fuzz", "runs=10", "seed=3", "hydra.run.dir=one")
    report = json.loads((tmp_path / "one" / "fuzz.json").read_text())
    assert (report["runs"], report["seed"], report["failure"]) == (10, 3, None)
    assert report["by_target"] == {"table": 10} and "hypothesis" in report["versions"]


def test_configs_are_composed_while_the_command_has_its_own(run: Any, tmp_path: Path) -> None:
    run.done("fuzz", "targets=configs", "runs=20", "seconds=null", "hydra.run.dir=one")
    report = json.loads((tmp_path / "one" / "fuzz.json").read_text())
    assert report["texts"] > 0  # some were good
    assert not [reason for reason in report["refused"] if "GlobalHydra" in reason]


def test_a_failure_prints_the_command_to_repeat(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The example is as small as hypothesis can make it."""

    def failing(example: Example) -> Outcome:
        if len(example.prompts[0]) > 1:
            raise ValueError("a prompt is too long")
        return Outcome(("greedy",))

    for module in ("extras.fuzzing.command", "extras.fuzzing.campaign"):
        monkeypatch.setattr(f"outrider.{module}.run_example", failing)
    status, out, err = run("fuzz", "runs=50", "seconds=null", "hydra.run.dir=one")
    assert status == 1 and "the command above repeats it" in err
    report = json.loads((tmp_path / "one" / "fuzz.json").read_text())
    assert report["failure"]["example"]["prompts"] == [[0, 0]]
    command = next(line for line in out.splitlines() if line.startswith("outrider fuzz"))
    assert report["failure"]["command"] == command
    program, *arguments = shlex.split(command)
    assert program == "outrider"
    assert "ValueError: a prompt is too long" in run.refused(*arguments)
    monkeypatch.undo()
    assert "every promise was kept (" in run.done(*arguments)


def test_ctrl_c_leaves_a_summary(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add = Tally.add

    def interrupted(self: Tally, *outcome: Any) -> None:
        add(self, *outcome)
        if self.runs == 5:
            raise KeyboardInterrupt

    monkeypatch.setattr(Tally, "add", interrupted)
    status, out, _ = run("fuzz", "hydra.run.dir=one")
    assert status == 130 and "5 runs in" in out
    assert json.loads((tmp_path / "one" / "fuzz.json").read_text())["runs"] == 5


def test_a_missing_hypothesis_is_one_line_with_the_installation(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "hypothesis"]:
        monkeypatch.setitem(sys.modules, name, None)
    for name in ("campaign", "settings", "strategies"):
        monkeypatch.delitem(sys.modules, f"outrider.extras.fuzzing.{name}", raising=False)
    err = run.refused("fuzz", "runs=1")
    assert "outrider fuzz needs hypothesis: pip install 'outrider[fuzzing]'" in err


@pytest.mark.parametrize(
    ("setting", "line"),
    [
        ("seconds=0", "seconds=0.0: expected a number above 0, or null"),
        ("runs=0", "runs=0: expected a whole number of at least 1, or null"),
        ("targets=table", "targets='table': expected one of tables, transformers, both"),
        ("drafters=[promt_lookup]", "did you mean 'prompt_lookup'?"),
        ("drafters=none", "drafters='none': expected a list, each text"),
        ("example={targt:1}", "example.targt: did you mean 'target'?"),
    ],
)
def test_a_wrong_setting_is_one_line(setting: str, line: str, run: Any) -> None:
    err = run.refused("fuzz", setting)
    assert line in " ".join(err.split())
