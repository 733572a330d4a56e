"""`outrider compare workers=N`: one comparison on several workers of Ray."""

import logging
import os
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, final

from hydra.core.singleton import Singleton

from outrider.base.bounds import Count, NonNegative, checked
from outrider.base.errors import ConfigError, DrafterError, message_of, require
from outrider.base.expectations import AtLeast
from outrider.cli.settings import Compare
from outrider.cli.work import Work
from outrider.extras.ray.team import Call, Team, Worker
from outrider.lab.measuring.compare import PROTOCOLS, groups
from outrider.lab.measuring.measurement import Measurement
from outrider.lab.measuring.texts import batches
from outrider.lab.measuring.trial import Watch
from outrider.lab.measuring.variants import Question
from outrider.lab.runs.labels import differences


@final
class RayCluster:
    """Where workers run, and what each of them takes.

    address: the running cluster to join, "auto" for the one on this machine. Defaults to None,
        which starts Ray on this machine for the length of the run, closed to all others.
    cpus: cores of a worker, which is also its number of threads. Defaults to None: those of this
        machine shared out, or 1 on a cluster that runs.
    gpus: GPUs of a worker. Defaults to None: one, if the cluster has any.
    retries: how often a worker may die of the same question before the run gives up.

    Raises:
        ConfigError: a number is out of range.
    """

    @checked("cluster")
    def __init__(
        self,
        address: str | None = None,
        cpus: Count | None = None,
        gpus: NonNegative | None = None,
        retries: Annotated[int, AtLeast(0)] = 3,
    ) -> None:
        self._address, self._cpus, self._gpus, self._retries = address, cpus, gpus, retries

    def work(self, settings: Compare) -> Work:
        """Returns the comparison on as many workers as the settings say; one has started.

        Raises:
            ConfigError: Ray is not installed, the cluster does not run or is too small, or a worker
                can't make a part.
        """
        workers = settings.workers or 1
        own = (os.cpu_count() or 1) // workers if self._address is None else 1
        cpus = self._cpus or max(1, own)
        local = None if self._address else workers * cpus
        ray = connected(self._address, local)
        try:
            has = ray.cluster_resources()
            gpus = float(has.get("GPU", 0) > 0) if self._gpus is None else self._gpus
            for name, each in (("CPU", cpus), ("GPU", gpus)):
                fit = int(has.get(name, 0) // each) if each else workers
                expected = f"at most {fit}, the cluster has {has.get(name, 0):g} {name}s"
                require(workers <= fit, "workers", workers, expected)
            actor = ray.remote(num_cpus=cpus, num_gpus=gpus, max_restarts=0)(Worker)
            return Crew(ray, actor.remote, settings, self._retries)
        except BaseException:
            ray.shutdown()
            raise


@final
class Crew(Work):
    """A comparison whose questions are measured by whichever worker is free."""

    def __init__(self, ray: Any, hire: Callable[[], Any], settings: Compare, retries: int) -> None:
        self._ray, self._settings = ray, settings
        self.facts: Mapping[str, Any] = {}
        self._node = ""
        first = Call(
            "start", (settings, Singleton.get_state(), Path.cwd()), "the start of a worker"
        )
        self._team = Team(
            ray, hire, first, self._welcome, workers=settings.workers or 1, retries=retries
        )
        self._team.start()

    def questions(self, on_text: Callable[[], None]) -> list[Question]:
        texts: list[list[list[int]]] = []
        while True:
            ((_, wanted),) = self._team.results([Call("ask", (texts,), "the prompts")])
            if isinstance(wanted[0], Question):
                return list(wanted)
            texts.append(self._written(wanted, on_text))

    def _written(
        self, prompts: Sequence[list[int]], on_text: Callable[[], None]
    ) -> list[list[int]]:
        """Returns the target's text for each prompt, in the same batches as one process."""
        together = batches(prompts, self._settings.batch)
        calls = [
            Call("write", ([prompts[i] for i in some],), "a batch of texts") for some in together
        ]
        texts: list[list[int]] = [[]] * len(prompts)
        for number, written in self._team.results(calls):
            for index, text in zip(together[number], written, strict=True):
                texts[index] = text
                on_text()
        return texts

    def measure(
        self, questions: Sequence[Question], done: Sequence[Measurement], watch: Watch | None = None
    ) -> Iterator[Measurement]:
        each = len(PROTOCOLS[self._settings.protocol]) * len(self.facts["drafters"])
        done_of: dict[tuple[str, int], list[Measurement]] = {}
        for one in done:
            done_of.setdefault((one.prompt, one.turn), []).append(one)
        left = [
            question
            for question in questions
            if len(done_of.get((question.prompt, question.turn), ())) < each
        ]
        calls = []
        for some in groups(left, self._settings.together):
            theirs = [m for asked in some for m in done_of.get((asked.prompt, asked.turn), ())]
            about = f"prompt {', '.join(question.prompt for question in some)}"
            calls.append(Call("measure", (some, theirs), about))
        failed = None
        for _, measurements in self._team.results(calls):
            yield from measurements
            failed = failed or next((m.error for m in measurements if m.error), None)
        if failed is not None:
            raise DrafterError(failed)

    def __exit__(self, *_: object) -> None:
        self._ray.shutdown()

    def _welcome(self, started: tuple[str, dict[str, Any]]) -> None:
        """Takes a worker's facts; those of the first are the run's, and the others have to agree.

        Raises:
            ConfigError: a worker has other code, libraries or weights.
        """
        node, facts = started
        if not self.facts:
            self._node, self.facts = node, facts
        both = [{**some, "starts": None} for some in (self.facts, facts)]
        for key, (one, other) in differences(both).items():
            raise ConfigError(f"workers: {key} is {other!r} on {node}, and {one!r} on {self._node}")


OBJECT_STORE_BYTES = 100 * 2**20
"""Memory for the objects that Ray passes between processes: configs, questions and counts."""


def connected(address: str | None, cpus: int | None) -> Any:
    """Returns the module `ray`, connected.

    address: the running cluster to join, "auto" for the one on this machine; None starts Ray on
        this machine, closed to all others.
    cpus: how many cores it has, if it is started here; None for those of the machine.

    Raises:
        ConfigError: Ray is not installed, or there is no such cluster.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no reports over the network
    if address is None:
        os.environ.update(private_settings())
    try:
        ray: Any = import_module("ray")
    except ImportError as error:
        raise ConfigError(f"workers needs {error.name}: pip install 'outrider[ray]'") from error
    settings: dict[str, Any] = {"address": address}
    if address is None:
        settings = {
            "address": "local",
            "num_cpus": cpus,
            "object_store_memory": OBJECT_STORE_BYTES,
            "include_dashboard": False,
        }
    try:
        ray.init(**settings, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, ValueError) as error:
        line = message_of(error)
        raise ConfigError(
            f"cluster.address={address!r}: expected one that runs ({line})"
        ) from error
    return ray


def private_settings() -> dict[str, str]:
    """Returns the environment of a Ray that only this run can reach; read when Ray is imported.

    It listens on the loopback interface, which no other machine can reach, and requires a random
    token. Ray has tokens since version 2.52.
    """
    return {
        # Named after the systems where Ray takes the loopback address unless this is set.
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
    }
