"""A team of workers that take calls from one queue, and what each does in a process of Ray."""

import logging
import os
import platform
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final

from hydra.core.singleton import Singleton
from hydra.core.utils import setup_globals

from outrider.base.errors import OutriderError, require
from outrider.cli.settings import Compare
from outrider.cli.work import OneProcess
from outrider.lab.measuring.compare import ask
from outrider.lab.measuring.measurement import Measurement
from outrider.lab.measuring.texts import written
from outrider.lab.measuring.variants import Question, Variant

log: logging.Logger = logging.getLogger(__name__)

START = -1
"""The number of the call that prepares a worker."""


class WorkerError(OutriderError):
    """A worker process died every time that its work was tried."""


@final
@dataclass(frozen=True, slots=True)
class Call:
    """A method of a worker with its arguments.

    about: what it does, in words. number: its place among the calls that are made together.
    tried: how often a worker has died of it.
    """

    method: str
    arguments: tuple[Any, ...]
    about: str
    number: int = START
    tried: int = 0


@final
class Team:
    """Workers, each of which answers one call at a time.

    ray: the module, connected.
    hire: returns a new worker, an actor of Ray.
    first: the call that prepares a worker. on_start: takes what it returns.
    retries: how often a call is made again after its worker died.
    """

    def __init__(
        self,
        ray: Any,
        hire: Callable[[], Any],
        first: Call,
        on_start: Callable[[Any], None],
        *,
        workers: int,
        retries: int,
    ) -> None:
        self._ray, self._hire, self._first, self._on_start = ray, hire, first, on_start
        self._retries = retries
        self._idle: list[Any] = []
        self._busy: dict[Any, tuple[Any, Call]] = {}
        self._waiting: deque[Call] = deque()
        for _ in range(workers):
            self._make(hire(), first)

    def start(self) -> None:
        """Waits until one worker is there; the others join when they are."""
        while not self._idle:
            self._next()

    def results(self, calls: Sequence[Call]) -> Iterator[tuple[int, Any]]:
        """Yields the number of each call and what it returned, in the order in which they end.

        Raises:
            WorkerError: a worker died of a call once more than `retries`.
            Exception: whatever a worker raised.
        """
        self._waiting.extend(replace(call, number=number) for number, call in enumerate(calls))
        left = len(calls)
        while left:
            while self._waiting and self._idle:
                self._make(self._idle.pop(), self._waiting.popleft())
            for ended in self._next():
                left -= 1
                yield ended

    def _make(self, worker: Any, call: Call) -> None:
        self._busy[getattr(worker, call.method).remote(*call.arguments)] = (worker, call)

    def _next(self) -> list[tuple[int, Any]]:
        """Waits for one call to end, and returns its result; none if it was a start, or a death."""
        (ended,), _ = self._ray.wait(list(self._busy), num_returns=1)
        worker, call = self._busy.pop(ended)
        errors = self._ray.exceptions
        try:
            result = self._ray.get(ended)
        except errors.RayTaskError as error:
            raise error.cause from error
        except errors.RayError as error:
            self._repeat(call, str(error).splitlines()[0])
            return []
        self._idle.append(worker)
        if call.number == START:
            self._on_start(result)
            return []
        return [(call.number, result)]

    def _repeat(self, call: Call, reason: str) -> None:
        """Hires a worker for the one that died, and puts its call back to the front."""
        again = replace(call, tried=call.tried + 1)
        if again.tried > self._retries:
            raise WorkerError(f"{call.about}: its worker died {again.tried} times ({reason})")
        log.warning(f"{call.about}: its worker died, another one does it again ({reason})")
        if call.number == START:
            self._make(self._hire(), again)
        else:
            self._waiting.appendleft(again)
            self._make(self._hire(), self._first)


@final
class Worker:
    """Loads the models once, and measures the questions that it is given."""

    _work: OneProcess

    def start(self, settings: Compare, state: Any, folder: Path) -> tuple[str, dict[str, Any]]:
        """Builds all parts, and returns where that is, and the facts of the run.

        state: that of Hydra. folder: where the command was started.

        Raises:
            ConfigError: a part can't be made, or its figures depend on the order of questions.
        """
        os.chdir(folder)
        setup_globals()
        Singleton.set_state(state)
        self._work = OneProcess(settings)
        check_independent(settings.workers, self._work.variants)
        return platform.node(), dict(self._work.facts)

    def ask(self, texts: Sequence[list[list[int]]]) -> list[list[int]] | list[Question]:
        """Returns the prompts whose texts are needed next, or the questions if none are.

        texts: the texts that were needed before, in their order.
        """
        work, chat = self._work, self._work.settings.chat
        asking = ask(work.target, work.prompts, work.writing, chat=chat, answers=work.answers)
        given = iter(texts)
        try:
            wanted = next(asking)
            while (text := next(given, None) if wanted else []) is not None:
                wanted = asking.send(text)
        except StopIteration as end:
            found: list[Question] = end.value
            return found
        return wanted

    def write(self, prompts: Sequence[Sequence[int]]) -> list[list[int]]:
        """Returns the target's texts for prompts that are written together."""
        writing = self._work.writing
        return written(
            self._work.target,
            prompts,
            writing.sampling,
            writing.max_new_tokens,
            batch=len(prompts),
            folder=self._work.folder,
        )

    def measure(
        self, questions: Sequence[Question], done: Sequence[Measurement]
    ) -> list[Measurement]:
        """Returns the measurements of some questions, but for those that are done."""
        measured = list[Measurement]()
        try:
            measured.extend(self._work.measure(questions, done))
        except OutriderError:
            if all(measurement.error is None for measurement in measured):
                raise
        return measured


def check_independent(workers: int | None, variants: Mapping[str, Variant]) -> None:
    """Raises `ConfigError` if the figures of a question depend on those that came before it."""
    for name, variant in variants.items():
        for is_so, what in (
            (variant.drafter.remembers, "its drafter remembers texts"),
            (variant.policy.learns, "its policy learns from rounds"),
        ):
            require(not is_so, "workers", workers, f"null with {name}: {what}, one after the other")
