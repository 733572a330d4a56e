"""Ray without processes: calls are pickled both ways, and some of them kill their worker."""

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import cloudpickle


class TaskError(Exception):
    """Stands for the error that Ray raises if a call itself failed."""

    def __init__(self, cause: Exception) -> None:
        self.cause = cause


class Died(Exception):
    """Stands for the error that Ray raises if the worker died."""


class StubRay:
    """Stands for the module `ray`, connected to a cluster.

    deaths: by method, the numbers of the calls of it that kill their worker, from 0.
    """

    exceptions = SimpleNamespace(RayTaskError=TaskError, RayError=Died)

    def __init__(self, deaths: dict[str, set[int]] | None = None, **resources: float) -> None:
        self.deaths, self.resources = deaths or {}, resources
        self.made: dict[str, int] = {}
        self.hired = self.waits = 0
        self.is_connected = True

    def cluster_resources(self) -> dict[str, float]:
        return self.resources

    def shutdown(self) -> None:
        self.is_connected = False

    def remote(self, **_: Any) -> Callable[[type], Any]:
        return lambda kind: SimpleNamespace(remote=lambda: self._hired(kind))

    def wait(self, refs: Sequence[Callable[[], Any]], **_: int) -> Any:
        """In turn, the call that was made last and the one that was made first end."""
        self.waits += 1
        return [refs[-(self.waits % 2)]], []

    def get(self, ref: Callable[[], Any]) -> Any:
        return ref()

    def _hired(self, kind: type) -> Any:
        self.hired += 1
        worker = kind()

        class Actor:
            def __getattr__(_, name: str) -> Any:
                return SimpleNamespace(
                    remote=lambda *arguments: lambda: self._answer(worker, name, arguments)
                )

        return Actor()

    def _answer(self, worker: Any, name: str, arguments: tuple[Any, ...]) -> Any:
        number = self.made.get(name, 0)
        self.made[name] = number + 1
        if number in self.deaths.get(name, ()):
            raise Died("killed\nand more")
        try:
            result = getattr(worker, name)(*cloudpickle.loads(cloudpickle.dumps(arguments)))
        except Exception as error:
            raise TaskError(error) from error
        return cloudpickle.loads(cloudpickle.dumps(result))
