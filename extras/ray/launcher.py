"""Ray launcher: runs the jobs of a sweep on Ray, and repeats those whose worker process died."""

import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, final

from hydra.core.singleton import Singleton
from hydra.core.utils import (
    JobReturn,
    JobStatus,
    configure_log,
    filter_overrides,
    run_job,
    setup_globals,
)
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, open_dict

from outrider.base.bounds import AtLeast, Count, NonNegative, checked
from outrider.base.errors import require
from outrider.extras.ray.connection import connected
from outrider.extras.ray.team import WorkerError

log: logging.Logger = logging.getLogger(__name__)


@final
@dataclass(frozen=True, slots=True)
class Job:
    """A job of a sweep.

    tried: how often its worker has died.
    """

    number: int
    overrides: tuple[str, ...]
    tried: int = 0

    def __str__(self) -> str:
        return f"job {self.number} ({' '.join(filter_overrides(self.overrides))})"


@final
class RayLauncher(Launcher):
    """Runs each job as a Ray task, in its own process.

    address: the running cluster to join, "auto" for the one on this machine. Defaults to None,
        which starts Ray on this machine for the length of the sweep, closed to all others.
    workers: how many jobs run at once, if Ray is started here. Defaults to None: as many as fit.
    cpus, gpus: what each job takes.
    retries: how often a job is repeated after its worker died. A repeated job runs with
        `resume=true`, so that `compare` continues after its last measurement.

    Raises:
        ConfigError: a number is out of range, both an address and workers are set, or Ray is not
            installed.
    """

    @checked("hydra.launcher")
    def __init__(
        self,
        address: str | None = None,
        workers: Count | None = None,
        cpus: Count = 1,
        gpus: NonNegative = 0,
        retries: Annotated[int, AtLeast(0)] = 3,
    ) -> None:
        is_valid = address is None or workers is None
        expected = "null with an address: the cluster knows"
        require(is_valid, "hydra.launcher.workers", workers, expected)
        self._address, self._workers = address, workers
        self._cpus, self._gpus, self._retries = cpus, gpus, retries

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        self._context, self._task, self._config = hydra_context, task_function, config

    def launch(
        self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int
    ) -> Sequence[JobReturn]:
        setup_globals()
        hydra = self._config.hydra
        configure_log(hydra.hydra_logging, hydra.verbose)
        Path(str(hydra.sweep.dir)).mkdir(parents=True, exist_ok=True)
        jobs = [
            Job(number, tuple(overrides))
            for number, overrides in enumerate(job_overrides, start=initial_job_idx)
        ]
        count = None if self._workers is None else self._workers * self._cpus
        user = "hydra/launcher=outrider_ray"
        ray = connected(self._address, count, field="hydra.launcher.address", user=user)
        try:
            results = self._run_all(ray, jobs)
        finally:
            ray.shutdown()
        return [results[job.number] for job in jobs]

    def _run_all(self, ray: Any, jobs: Sequence[Job]) -> dict[int, JobReturn]:
        """Returns the result of each job, by its number."""
        remote = ray.remote(num_cpus=self._cpus, num_gpus=self._gpus, max_calls=1, max_retries=0)(
            run_in_worker
        )
        state, folder = Singleton.get_state(), Path.cwd()

        def submit(job: Job) -> Any:
            log.info(f"{job} is waiting for a worker")
            return remote.remote(self._context, self._job_config(job), self._task, state, folder)

        running = {submit(job): job for job in jobs}
        results: dict[int, JobReturn] = {}
        while running:
            (ended,), _ = ray.wait(list(running), num_returns=1)
            job = running.pop(ended)
            try:
                results[job.number] = ray.get(ended)
                log.info(f"{job} has ended")
            except ray.exceptions.RayTaskError:
                raise  # a fault of the launcher: `run_job` catches the errors of a job
            except ray.exceptions.RayError as error:
                reason = str(error).splitlines()[0]
                retry = replace(job, tried=job.tried + 1)
                if retry.tried <= self._retries:
                    log.warning(f"{job}: its worker died, it runs again ({reason})")
                    running[submit(retry)] = retry
                    continue
                failure = WorkerError(f"{job}: its worker died {retry.tried} times ({reason})")
                results[job.number] = JobReturn(status=JobStatus.FAILED, _return_value=failure)
        return results

    def _job_config(self, job: Job) -> DictConfig:
        """Returns the config of a job."""
        config = self._context.config_loader.load_sweep_config(self._config, list(job.overrides))
        with open_dict(config):
            config.hydra.job.id = f"{config.hydra.job.name}_{job.number}"
            config.hydra.job.num = job.number
            if job.tried and "resume" in config:
                config.resume = True
        return config


def run_in_worker(
    context: HydraContext, config: DictConfig, task: TaskFunction, state: Any, folder: Path
) -> JobReturn:
    """Runs a job in a Ray worker, in the folder that the sweep was started from."""
    os.chdir(folder)
    setup_globals()
    Singleton.set_state(state)
    return run_job(
        hydra_context=context,
        task_function=task,
        config=config,
        job_dir_key="hydra.sweep.dir",
        job_subdir_key="hydra.sweep.subdir",
    )
