"""A process that answers the bench's questions, one at a time."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, final

from outrider.base.errors import OutriderError


class BenchError(OutriderError):
    """A worker failed or ended."""


@final
class Worker:
    """A process that answers questions in JSON lines, as `bench.peer.serve` does.

    Between questions it is stopped, along with its child processes: an engine that polls for work
    would take a core from the worker whose turn it is.

    command: the program and its arguments. settings: the first line that it receives.
    log: the file that its stderr goes to.

    Raises `BenchError` if it did not start; the message has the last line that it printed.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        settings: Mapping[str, Any],
        log: Path,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self._log = log
        began = time.perf_counter()
        try:
            with log.open("w") as errors:
                self._process = subprocess.Popen(
                    list(command),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    text=True,
                    # A process group, not a new session: if the bench is killed, the kernel
                    # continues the stopped workers, and they end.
                    process_group=0,
                    env=None if environment is None else dict(environment),
                )
        except OSError as error:
            raise BenchError(f"{name}: {command[0]} can't be run: {error.strerror}") from error
        self.peak: int = 0
        try:
            self._exchange(settings)
        except BaseException:
            self.close()
            raise
        self.start_seconds: float = time.perf_counter() - began
        self.said: str = log.read_text(errors="replace")  # while it started
        self._signal(signal.SIGSTOP)

    def ask(self, question: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the answer.

        Raises `BenchError` if the worker failed, or has ended.
        """
        self._signal(signal.SIGCONT)
        try:
            return self._exchange(question)
        finally:  # also after an error
            self._signal(signal.SIGSTOP)

    def _exchange(self, question: Mapping[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(question) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            lines = [line.strip() for line in self._log.read_text().splitlines() if line.strip()]
            last = lines[-1] if lines else "no message"
            raise BenchError(f"{self.name} is gone: {last} ({self._log})")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise BenchError(f"{self.name}: {answer['error']}")
        self.peak = int(answer["peak"])
        return answer

    def close(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._signal(signal.SIGCONT)
        with suppress(BrokenPipeError):  # it may have ended
            self._process.stdin.close()
        self._process.stdout.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _signal(self, number: int) -> None:
        with suppress(ProcessLookupError):  # it may have ended
            os.killpg(self._process.pid, number)
