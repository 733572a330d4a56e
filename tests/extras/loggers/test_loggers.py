"""Loggers tell of a run while it is measured and at its end, with the libraries' own calls."""

import json
import posixpath
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from outrider.lab.runs.report import Report, Reports
from outrider.lab.runs.report_checks import CHECKS, tiny_run
from outrider.lab.runs.run import Run
from outrider.lab.runs.summary import Summary
from outrider.plugins.registry import installed

Calls = list[tuple[str, Any]]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """Puts stand-ins in the place of the libraries, which note what they are told."""
    made: Calls = []

    def noting(name: str, answer: Any = None) -> Callable[..., Any]:
        def note(*arguments: Any, **options: Any) -> Any:
            made.append((name, arguments or options))
            return answer

        return note

    def stand_in(*names: str) -> Any:
        return SimpleNamespace(**{name: noting(name) for name in names})

    monkeypatch.setitem(sys.modules, "mlflow", stand_in(
        "set_experiment", "start_run", "log_params", "log_metrics", "end_run"
    ))  # fmt: skip
    wandb = SimpleNamespace(init=noting("init", stand_in("log", "finish")))
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    writer = noting("writer", stand_in("add_text", "add_scalar", "close"))
    tensorboard = SimpleNamespace(SummaryWriter=writer)
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", tensorboard)
    return made


def logger(name: str, tmp_path: Path) -> Report:
    setting = {
        "json_lines": {"path": str(tmp_path / "logs" / "lines.jsonl")},
        "tensorboard": {"folder": str(tmp_path / "board")},
        "wandb": {"project": "drafts"},
        "mlflow": {"experiment": "drafts"},
    }[name]
    report: Report = installed().of("report")[name].factory(**setting)
    return report


def follow(report: Report, folder: Path, first: int = 0) -> Summary:
    """Tells a report of a whole run. first: how many measurements there are at its beginning."""
    facts, measurements = tiny_run()
    report.begin(Run(folder, facts, measurements[:first]))
    for measurement in measurements[first:]:
        report.add(measurement)
    summary = Summary(Run(folder, facts, measurements))
    report.end({"": summary}, folder)
    return summary


def test_lines_of_json_hold_settings_progress_and_rates(tmp_path: Path) -> None:
    summary = follow(logger("json_lines", tmp_path), tmp_path / "run")
    text = (tmp_path / "logs" / "lines.jsonl").read_text()
    first, *others, last = map(json.loads, text.splitlines())
    assert first["run"] == last["run"] == str(tmp_path / "run")
    assert first["settings"]["gamma"] == "2"
    decoded = [m for m in tiny_run()[1] if m.decoding is not None]
    assert len(others) == len(decoded) and last["step"] == len(tiny_run()[1])
    for row in summary.rows:
        place, speedup = f"{row.drafter}/so_far", row.rates["speedup"]
        assert row.counts is not None and speedup is not None
        *_, so_far = (it["figures"] for it in others if f"{place}/speedup" in it["figures"])
        tokens_a_call = row.counts.emitted / row.counts.rounds
        assert so_far[f"{place}/tokens_a_call"] == pytest.approx(tokens_a_call)
        assert so_far[f"{place}/speedup"] == pytest.approx(speedup.value)
        assert last["figures"][f"{row.drafter}/speedup"] == speedup.value


def test_a_resumed_run_continues_its_sums(tmp_path: Path) -> None:
    lines = tmp_path / "logs" / "lines.jsonl"
    follow(logger("json_lines", tmp_path), tmp_path)
    *_, whole, _ = map(json.loads, lines.read_text().splitlines())
    lines.unlink()
    follow(logger("json_lines", tmp_path), tmp_path, first=len(tiny_run()[1]) - 1)
    _, resumed, _ = map(json.loads, lines.read_text().splitlines())
    assert resumed == whole


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("mlflow", ("log_params", "log_metrics", "end_run")),
        ("wandb", ("init", "log", "finish")),
        ("tensorboard", ("add_text", "add_scalar", "close")),
    ],
)
def test_a_library_is_told_of_a_run(
    name: str, told: tuple[str, str, str], calls: Calls, tmp_path: Path
) -> None:
    began, logged, ended = told
    follow(logger(name, tmp_path), tmp_path / "sweep" / "0")
    said = [call for call, _ in calls]
    assert said.index(began) < said.index(logged) and said[-1] == ended
    assert "bigram/speedup" in str(calls) and "sweep/0" in str(calls)


@pytest.mark.parametrize(
    ("name", "ended", "how"),
    [
        ("mlflow", "end_run", ("KILLED",)),
        ("wandb", "finish", {"exit_code": 1}),
        ("tensorboard", "close", {}),
    ],
)
def test_a_library_is_told_that_a_run_was_interrupted(
    name: str, ended: str, how: object, calls: Calls, tmp_path: Path
) -> None:
    reports = Reports({name: logger(name, tmp_path)})
    with pytest.raises(KeyboardInterrupt), reports.following(Run(tmp_path, tiny_run()[0], ())):
        raise KeyboardInterrupt
    assert calls[-1] == (ended, how)


@pytest.mark.parametrize("name", ["json_lines", "mlflow", "wandb", "tensorboard"])
@pytest.mark.usefixtures("calls")
def test_a_logger_passes_the_checks_of_its_role(name: str, tmp_path: Path) -> None:
    for check in CHECKS:
        check(lambda: logger(name, tmp_path))


NAMES = ("a@b", "a#b", "a_b", "a//b", "../x", "./x", "/x", "x/", "..", "a, (b)", "你好", "x" * 300)


@pytest.mark.parametrize("name", ["mlflow", "tensorboard"])
def test_no_name_is_refused_or_a_path_or_another_ones(
    name: str, calls: Calls, tmp_path: Path
) -> None:
    report: Any = logger(name, tmp_path)
    report.begin(Run(tmp_path, tiny_run()[0] | {"settings": dict.fromkeys(NAMES, 1)}, ()))
    report.log({f"{name}/speedup": 1.5 for name in NAMES}, 3)
    if name == "mlflow":
        params, metrics = (given[0] for call, given in calls if call.startswith("log_"))
        assert len(params) == len(NAMES)
    else:
        metrics = {given[0] for call, given in calls if call == "add_scalar"}
    assert len(metrics) == len(NAMES)
    for key in metrics:
        assert key == posixpath.normpath(key) and re.fullmatch(r"[\w.-][\w./-]{,249}", key)
        assert key.rpartition("/")[2].startswith("speedup") and not key.startswith("..")
