"""Sweeps in several processes: on Ray, where a worker is killed, and by submitit."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hydra.core.utils import JobReturn, JobStatus
from tiny import forked
from tiny.stub_ray import Died, StubRay

from outrider.extras.ray.launcher import Job, RayLauncher
from outrider.extras.ray.team import WorkerError
from outrider.lab.runs.run import load

HERE = Path(__file__).parent
DOCUMENTED = "outrider compare --multirun gamma=2,4 drafters=[none,bigram] hydra/launcher=outrider_ray hydra.launcher.workers=2"  # noqa: E501
"""What the docs have for Ray; tests/test_docs.py looks for it here."""
pytestmark = pytest.mark.usefixtures("drawn_once")


def small(folder: Path, data: Path) -> list[str]:
    """Returns settings that keep the jobs of a sweep short."""
    return ["target=transformers", f"target.model={folder}", "data=jsonl", f"data.path={data}",
            "max_new_tokens=8", "turns=1", "cache=false", "hydra.sweep.dir=sweep"]  # fmt: skip


def asked(folder: Path, data: Path, *more: str) -> list[str]:
    """Returns the words of a sweep over gamma."""
    sweep = ["compare", "--multirun", "gamma=1,2", "drafters=[none,bigram]"]
    return [*sweep, *small(folder, data), *more]


def rows(folder: Path) -> tuple[list[str], list[Any]]:
    """Returns the drafters of a comparison, and those of their figures that no clock decides."""
    found = json.loads((folder / "comparison.json").read_text())["rows"]
    return [row["drafter"] for row in found], [(row["alpha"], row["counts"]) for row in found]


@pytest.mark.first
def test_a_killed_ray_worker_loses_only_its_running_job(
    folder: Path, data: Path, tmp_path: Path, run: Any
) -> None:
    _, *words = DOCUMENTED.split()
    more = (*small(folder, data), "policy._target_=dying.Dying", "reports=[]")
    done = forked.run(HERE / "dying.py", *words, *more, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    output = done.stdout + done.stderr
    assert output.count("its worker died, it runs again") == 1
    assert output.count("has ended") == 2
    # It continued after what it had measured: those lines are the same, seconds included.
    before = (tmp_path / "died" / "measurements.jsonl").read_text().splitlines()
    after = (tmp_path / "sweep" / "0" / "measurements.jsonl").read_text().splitlines()
    assert 2 <= len(before) < len(after)
    assert after[: len(before) - len(before) % 2] == before[: len(before) - len(before) % 2]
    assert [rows(tmp_path / "sweep" / job)[0] for job in "01"] == [["none", "bigram"]] * 2
    alone = ["compare", "gamma=2", "drafters=[none,bigram]", *small(folder, data)[:-1]]
    assert run(*alone, "reports=[]", "hydra.run.dir=alone")[0] == 0
    assert rows(tmp_path / "sweep" / "0") == rows(tmp_path / "alone")


@pytest.mark.first
def test_submitit_runs_each_job(tmp_path: Path, run: Any) -> None:
    """On its local executor, which starts and watches processes as the one for SLURM does."""
    run.done(
        *("generate", "--multirun", "target=tabular", "prompt=[0,1]", "drafter=random"),
        *("gamma=1,2", "max_new_tokens=8", "hydra/launcher=submitit_local"),
        *("hydra.launcher.timeout_min=10", "hydra.sweep.dir=sweep"),
    )
    for number, gamma in enumerate((1, 2)):
        job = json.loads((tmp_path / "sweep" / str(number) / "generation.json").read_text())
        assert len(job["tokens"]) == 8
        assert max(len(round["draft"]) for round in job["rounds"]) == gamma


def test_a_job_of_a_sweep_resumes_in_its_own_folder(
    folder: Path, data: Path, tmp_path: Path, run: Any
) -> None:
    """A requeued job, started by the same command, neither starts over nor resumes another job."""
    words = asked(folder, data, "protocol=overlap", "resume=true", "reports=[]")
    assert run(*words)[0] == 0
    lines = tmp_path / "sweep" / "1" / "measurements.jsonl"
    whole = load(lines.parent).measurements
    lines.write_text("".join(lines.read_text().splitlines(keepends=True)[:3]))
    before = (tmp_path / "sweep" / "0" / "measurements.jsonl").read_text()
    assert run(*words)[0] == 0
    assert load(lines.parent).measurements == whole
    assert (tmp_path / "sweep" / "0" / "measurements.jsonl").read_text() == before


def ray_whose_workers_die(deaths: dict[int, int]) -> Any:
    """Returns a stand-in for Ray.

    deaths: how often the worker of each job dies, by the job's number.
    """

    def get(job: Job) -> JobReturn:
        if job.tried < deaths.get(job.number, 0):
            raise Died("killed\nand more")
        return JobReturn(_return_value=job.tried, status=JobStatus.COMPLETED)

    def remote(**_: Any) -> Callable[..., Any]:
        return lambda _: SimpleNamespace(remote=lambda _, job, *rest: job)

    def wait(running: Sequence[Job], num_returns: int) -> Any:
        return list(running)[:num_returns], []

    return SimpleNamespace(remote=remote, wait=wait, get=get, exceptions=StubRay.exceptions)


def test_a_job_is_retried_and_the_others_end(monkeypatch: pytest.MonkeyPatch) -> None:
    launcher = RayLauncher(None, 2, 1, 0, retries=2)
    monkeypatch.setattr(RayLauncher, "_job_config", lambda self, job: job)
    launcher.setup(hydra_context=None, task_function=None, config=None)  # type: ignore[arg-type]
    jobs = [Job(number, (f"gamma={number}",)) for number in range(4)]
    done = launcher._run_all(ray_whose_workers_die({1: 2, 2: 3}), jobs)
    assert [done[number].return_value for number in (0, 1, 3)] == [0, 2, 0]
    with pytest.raises(
        WorkerError, match=r"^job 2 \(gamma=2\): its worker died 3 times \(killed\)$"
    ):
        done[2].return_value  # noqa: B018
