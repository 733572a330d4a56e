"""What a fault leaves of each command, and how the next run goes on: the table of the docs."""

import errno
import json
import os
import re
import shlex
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from faulty import FAULTS
from tiny import forked
from tiny.comparisons import timeless

from outrider import Context, Drafter, DrafterError, Pen
from outrider.base.folders import claimed
from outrider.drafters.random import Random
from outrider.extras.bench import command as bench
from outrider.extras.bench import ours
from outrider.extras.bench.measure import Run
from outrider.lab.runs.report import Report
from outrider.lab.runs.run import load

HERE = Path(__file__).parent
TABULAR = (
    "target=tabular", "prompt=[0,1]", "max_new_tokens=12", "drafter=random", "verifier=token",
)  # fmt: skip
SAMPLED = (*TABULAR, "sampling=standard")


@pytest.fixture
def faulty(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Returns the settings of a policy that has a fault after two rounds."""
    monkeypatch.syspath_prepend(str(HERE))

    def settings(fault: str) -> tuple[str, ...]:
        return ("policy._target_=faulty.Faulty", f"+policy.fault={fault}")

    return settings


def report(folder: Path) -> Any:
    return json.loads((folder / "generation.json").read_text())


ENDS = {
    "SIGTERM": (143, "terminated", "Terminated"),
    "memory": (1, "outrider: out of memory (CUDA out of memory): expected less", "OutOfMemory"),
    "disk": (
        1,
        "outrider: policy Faulty raised OSError: [Errno 28] No space",
        "PluginError: policy Faulty raised OSError: [Errno 28]",
    ),
}
"""By fault, how a command ends: the exit status, its line, and the error in `generation.json`."""


@pytest.mark.parametrize("fault", ENDS)
def test_generate_leaves_its_written_text(
    run: Any, tmp_path: Path, faulty: Any, fault: str
) -> None:
    expected, line, error = ENDS[fault]
    status, _, err = run("generate", *SAMPLED, *faulty(fault), "hydra.run.dir=d")
    assert status == expected
    assert err.startswith(line)
    assert "generation.json has what was written; the same command starts over" in err
    saved = report(tmp_path / "d")
    assert len(saved["rounds"]) == 2 and saved["error"].startswith(error)


def test_a_batch_keeps_the_texts_that_have_ended(
    run: Any, tmp_path: Path, folder: Path, failing: Any
) -> None:
    model = ("target=transformers", f"target.model={folder}", "prompt=[the cat,a dog ran on]")
    # The first text ends when it can be saved; then the disk is full.
    with failing("generation.json", errno.ENOSPC, after=1):
        status, _, err = run("generate", *model, "max_new_tokens=3", "hydra.run.dir=d")
    assert status == 1
    assert "generation.json: No space left on device" in err
    texts = report(tmp_path / "d")
    assert [text["stop"] is None for text in texts].count(False) == 1


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS])
def test_a_text_that_can_not_be_saved_was_shown(run: Any, failing: Any, number: int) -> None:
    with failing("generation.json", number):
        status, out, err = run("generate", *SAMPLED, "hydra.run.dir=d")
    assert status == 1
    assert err == f"outrider: {Path.cwd() / 'd' / 'generation.json'}: {os.strerror(number)}\n"
    assert "tokens per call" in out


class Hangs(Drafter):
    """Drafts of one token are spared."""

    def __init__(self, tree: Any = None) -> None: ...

    def propose(self, context: Context, pen: Pen) -> None:
        while pen.gamma > 1:
            with suppress(Exception):  # it handles whatever it can
                time.sleep(60)


def test_a_drafter_that_hangs_is_ended(run: Any, tmp_path: Path) -> None:
    hangs = (f"drafter._target_={__name__}.Hangs", "draft_timeout=0.2")
    err = run.refused("generate", *SAMPLED, *hangs, "hydra.run.dir=d")
    line = "drafter Hangs took longer than 0.2 s for a draft (draft_timeout)"
    assert err.startswith(f"outrider: {line} ({__file__}:")
    assert report(tmp_path / "d")["error"].startswith(f"DrafterError: {line}")
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


@pytest.mark.parametrize("command", ["generate", "train", "bench"])
def test_two_processes_do_not_write_to_one_folder(run: Any, tmp_path: Path, command: str) -> None:
    (tmp_path / "d").mkdir()
    settings = {
        "generate": TABULAR,
        "train": ("target=tabular", "recipe=classifier", "drafter=random"),
        "bench": ("drafter=none",),
    }
    with claimed(tmp_path / "d"):
        status, _, err = run(command, *settings[command], "hydra.run.dir=d")
    assert status == 1
    assert re.search(rf"/d: process {os.getpid()} on .* writes to it: expected another folder", err)


def test_a_killed_generate_leaves_no_half_file_and_no_lock(
    run: Any, tmp_path: Path, faulty: Any
) -> None:
    """In its own process, which `kill -9` ends."""
    words = ["generate", *SAMPLED, "hydra.run.dir=d"]
    done = forked.run("-m", "outrider", *words, *faulty("SIGKILL"), cwd=tmp_path)
    assert done.returncode == -signal.SIGKILL
    assert not (tmp_path / "d" / "generation.json").exists()
    run.done(*words)
    assert report(tmp_path / "d")["stop"] == "max_new_tokens"


def test_a_sweep_keeps_the_jobs_that_have_ended(run: Any, tmp_path: Path, faulty: Any) -> None:
    words = ("generate", "--multirun", *SAMPLED, "gamma=1,2", "hydra.sweep.dir=s")
    status, _, err = run(*words, *faulty("SIGTERM"))
    assert (status, err.partition("\n")[0]) == (143, "terminated")
    jobs = [report(tmp_path / "s" / str(job)) for job in (0, 1)]
    assert [job["error"] for job in jobs] == [None, "Terminated"]


def test_after_a_fault_of_its_own_the_other_jobs_of_a_sweep_run(
    run: Any, tmp_path: Path, faulty: Any
) -> None:
    hangs = (f"drafter._target_={__name__}.Hangs", "draft_timeout=0.2")
    ends = {"memory": "out of memory", "hang": "took longer"}
    for fault, line in ends.items():
        settings = hangs if fault == "hang" else faulty(fault)
        words = (*SAMPLED, *settings, "gamma=2,1", f"hydra.sweep.dir={fault}")
        assert line in run.refused("generate", "--multirun", *words)
        errors = [report(tmp_path / fault / str(job))["error"] for job in (0, 1)]
        assert [error is None for error in errors] == [False, True]


@pytest.mark.parametrize(
    "command",
    [
        ("train", "recipe=classifier", "drafter=random"),
        ("compare", "protocol=decode", "reports=[]"),
        ("compare", "protocol=overlap", "reports=[]"),
    ],
    ids=" ".join,
)
def test_a_drafter_that_hangs_ends_whatever_runs_it(
    run: Any, small: tuple[str, ...], command: tuple[str, ...]
) -> None:
    hangs = f"{{_target_: {__name__}.Hangs, name: hangs}}"
    own = [f"drafter._target_={__name__}.Hangs"]
    if command[0] == "compare":
        own = [*ALONE[:-1], f"drafters=[{hangs}]"]
    err = run.refused(*command, *small, *own, "draft_timeout=0.2")
    assert "drafter Hangs took longer than" in err


def test_a_drafter_that_hangs_ends_a_run_of_the_bench() -> None:
    module = "outrider.targets.tabular.TabularTarget"
    parts = {"target": module, "drafter": f"{__name__}.Hangs", "sampling": "outrider.Sampling"}
    parts |= {"verifier": "outrider.verifiers.token.Token", "policy": "outrider.Fixed"}
    settings: dict[str, Any] = {role: {"_target_": place} for role, place in parts.items()}
    write = ours.start(settings | {"gamma": 2, "budget": None, "draft_timeout": 0.2})
    with pytest.raises(DrafterError, match="drafter Hangs took longer than"):
        write({"ask": "write", "ids": [0, 1], "max_new_tokens": 8})


@pytest.fixture
def small(folder: Path, data: Path) -> tuple[str, ...]:
    """A tiny model and three questions."""
    model = ("target=transformers", f"target.model={folder}", "max_new_tokens=6")
    return (*model, "data=jsonl", f"data.path={data}")


ALONE = ("turns=1", "cache=false", "gamma=2", "drafters=[random]")


@pytest.fixture
def broken() -> Any:
    """A context in which the drafter `random` has a fault in its sixteenth round."""

    @contextmanager
    def breaks(fault: str) -> Iterator[None]:
        inner, calls = Random.propose, list[int]()

        def propose(self: Random, context: Context, pen: Pen) -> None:
            calls.append(1)
            if len(calls) == 16:  # after those of the warm-up
                FAULTS[fault]()
            inner(self, context, pen)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Random, "propose", propose)
            yield

    return breaks


@pytest.mark.usefixtures("drawn_once")
def test_compare_resumes_at_its_last_question(
    run: Any, small: tuple[str, ...], tmp_path: Path, broken: Any
) -> None:
    words = ("compare", *small, *ALONE, "protocol=decode", "hydra.run.dir=runs/a")
    with broken("SIGTERM"):
        status, _, err = run(*words)
    assert status == 143, err
    (count,) = re.findall(r"(\d+) measurements are saved", err)
    command = shlex.split(err.partition("To continue: ")[2])
    where = f"hydra.run.dir={tmp_path / 'runs' / 'a'}"
    assert command == ["outrider", *words[:-1], "resume=true", where]
    lines = tmp_path / "runs" / "a" / "measurements.jsonl"
    assert 0 < int(count) < 3 and lines.read_text().count("\n") == int(count)
    # `kill -9` leaves the same and prints nothing: the next run says how to go on.
    _, _, err = run("compare", *small, *ALONE, "protocol=overlap", "hydra.run.dir=runs/b")
    assert re.search(r"an unfinished run is in .*a: .* resume=true hydra\.run\.dir=", err)
    assert run(*command[1:])[0] == 0
    assert lines.read_text().count("\n") == 3


TRAINING = (
    *("recipe.texts=6", "recipe.held_out=2", "max_new_tokens=8", "recipe.vocabulary=25"),
    *("recipe.schedule.epochs=2", "recipe.schedule.batch=3", "recipe.schedule.evaluate=1"),
)
COMMANDS: dict[str, tuple[tuple[str, ...], tuple[str, ...], list[str]]] = {
    "compare": (
        (
            *("data=jsonl", "data.path={data}", "turns=1", "gamma=2", "drafters=[random,bigram]"),
            *("max_new_tokens=6", "cache=false"),
        ),
        ("resume=true",),
        ["measurements.jsonl"],
    ),
    "train": (("drafter=medusa", *TRAINING, "out={run}/made"), (), ["texts.jsonl", "curve.jsonl"]),
}
"""By command its settings, what continues a run, and the files that a run has in the end."""


@pytest.mark.parametrize("command", COMMANDS)
def test_a_killed_command_continues(command: str, folder: Path, data: Path, tmp_path: Path) -> None:
    settings, more, files = COMMANDS[command]
    contents = []
    for writes in (0, 4):  # the first is not killed
        run = f"run-{writes}"
        words = [command, "target=transformers", f"target.model={folder}", "reports=[]"]
        words += [each.format(data=data, run=run) for each in settings]
        words.append(f"hydra.run.dir={run}")
        if writes:
            done = forked.run(HERE / "killed.py", writes, *words, cwd=tmp_path)
            assert done.returncode == -signal.SIGKILL, done.stderr
            words += more
        done = forked.run("-m", "outrider", *words, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        lines = [(tmp_path / run / name).read_text().splitlines() for name in files]
        found = lines if command == "train" else timeless(load(tmp_path / run).measurements)
        contents.append(sorted(map(str, found)))
    assert all(content == contents[0] for content in contents)


@pytest.mark.usefixtures("drawn_once")
def test_compare_on_a_full_disk_keeps_its_measurements(
    run: Any, small: tuple[str, ...], tmp_path: Path, failing: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("compare", *small, *ALONE, "protocol=decode", "hydra.run.dir=runs/a")
    with failing("measurements.jsonl", errno.ENOSPC, after=2):
        status, _, err = run(*words)
    assert status == 1
    assert "No space left on device" in err
    lines = (tmp_path / "runs" / "a" / "measurements.jsonl").read_text().splitlines()
    assert len(lines) == 2
    status, _, err = run(*words, "resume=true")
    assert status == 0, err
    after = (tmp_path / "runs" / "a" / "measurements.jsonl").read_text().splitlines()
    assert after[:2] == lines and len(after) == 3
    # A report that can't be written leaves the run, and the next one writes it.
    with failing("report.json", errno.EROFS):
        status, _, err = run("report", "runs")
    assert status == 1
    assert "report.json: Read-only file system" in err
    assert len((tmp_path / "runs" / "a" / "measurements.jsonl").read_text().splitlines()) == 3
    _a_report_that_breaks_off_leaves_the_one_before(run, tmp_path / "runs", monkeypatch)


def _a_report_that_breaks_off_leaves_the_one_before(
    run: Any, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("report", str(runs))[0] == 0
    before = {path: path.read_bytes() for path in runs.rglob("*") if path.is_file()}
    for fault, expected in (("SIGTERM", 143), ("memory", 1)):
        monkeypatch.setattr(
            "outrider.cli.commands.report.plain_rows", lambda *_, f=fault: FAULTS[f]()
        )
        assert run("report", str(runs))[0] == expected
        after = {path: path.read_bytes() for path in runs.rglob("*") if path.is_file()}
        assert after == before


@pytest.mark.parametrize("fault", [KeyboardInterrupt, MemoryError])
def test_bench_saves_each_run_at_its_end(
    tmp_path: Path, fault: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    def runs(*_: Any) -> Any:
        for prompt in range(3):
            yield Run(0, prompt, "outrider plain", [1, 2], 0.5)
            # Also if it is killed now.
            assert len((tmp_path / bench.RUNS).read_text().splitlines()) == prompt + 1
        raise fault

    class Bar:
        def add_task(self, *_: Any, **options: Any) -> int:
            return 0

        def advance(self, *_: Any) -> None: ...

    monkeypatch.setattr(bench, "measure_runs", runs)
    config: Any = type("Config", (), {"repeats": 1, "max_new_tokens": 2})
    with pytest.raises(fault):
        bench._measure_runs(config, {}, [[1]] * 3, tmp_path, Bar(), reports=Report())  # type: ignore[arg-type]
    advice = bench._advice(tmp_path)
    assert advice is not None and advice.startswith(f"3 runs are in {tmp_path / bench.RUNS}")


def test_bench_does_not_overwrite_another(run: Any, tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "runs.jsonl").write_text("{}\n")
    err = run.refused("bench", "hydra.run.dir=d")
    assert "expected a folder without the runs.jsonl of another bench" in err
    assert (tmp_path / "d" / "runs.jsonl").read_text() == "{}\n"


@pytest.mark.usefixtures("drawn_once")
def test_names_and_ids_in_brackets_are_no_markup(run: Any, folder: Path, tmp_path: Path) -> None:
    data = tmp_path / "data.jsonl"
    prompts = [{"id": f"[/x] {n} \x1b[2J", "category": "[/y]", "prompt": "the cat"} for n in (1, 2)]
    data.write_text("".join(json.dumps(prompt) + "\n" for prompt in prompts))
    words = ("target=transformers", f"target.model={folder}", "cache=false", "max_new_tokens=4",
             "data=jsonl", f"data.path={data}", "gamma=2", "protocol=overlap",
             "drafters=[{drafter: random, name: '[/z]'},{drafter: none, name: '$\\\\x$'}]",
             "hydra.run.dir='runs/x[/a]'")  # fmt: skip
    status, out, err = run("compare", *words)
    assert status == 0, err
    assert "[/z]" in out
    assert "\x1b" not in out + err
    assert "[/z]" in run.done("report", "runs")


def test_pages_name_files_and_tests_that_exist() -> None:
    root = HERE.parent
    named = set[tuple[str, str]]()
    for page in (root / "CONTRIBUTING.md", *root.glob("docs/**/*.md")):
        named |= set(re.findall(r"\b(tests/[\w/]+\.py)(?:::(\w+))?", page.read_text()))
    assert named
    for file, test in named:
        text = (root / file).read_text()
        assert not test or re.search(rf"^def {test}\(", text, re.MULTILINE), f"{file}::{test}"
