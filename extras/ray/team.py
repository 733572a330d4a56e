"""A team of workers that take calls from one queue; a call whose worker dies is made again."""

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, final

from outrider.base.errors import OutriderError

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
