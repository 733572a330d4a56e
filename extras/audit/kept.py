"""The answers of a run, kept line by line, so that an interrupted run goes on."""

import json
from collections import defaultdict, deque
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import final

from outrider.base.errors import ConfigError
from outrider.base.folders import append_line
from outrider.data.jsonl import json_lines

REPORT = "audit.json"
"""What a run's folder has at its end."""


@final
class Kept:
    """Answers in a run's folder, each with what was asked.

    A run in a folder with answers and without a report goes on: each answer is read once more
    before the server is asked again.
    """

    def __init__(self, folder: Path) -> None:
        self._path, self._lock = folder / "answers.jsonl", Lock()
        self._left: defaultdict[str, deque[str]] = defaultdict(deque)
        if (folder / REPORT).is_file():
            self._path.unlink(missing_ok=True)
        for _, line in json_lines(str(self._path)) if self._path.is_file() else ():
            if not isinstance(line, ConfigError):  # the last one may have been cut
                self._left[line["asked"]].append(line["answer"])

    def answer(self, asked: str, ask: Callable[[], str]) -> str:
        """Returns an answer that is left of an interrupted run, or a new one."""
        with self._lock:
            if left := self._left[asked]:
                return left.popleft()
        answer = ask()
        with self._lock:
            append_line(self._path, json.dumps({"asked": asked, "answer": answer}))
        return answer

    def advice(self) -> str | None:
        """Returns how an interrupted run goes on."""
        where = f"{self._path} keeps the answers: the same command with hydra.run.dir="
        return f"{where}{self._path.parent} goes on" if self._path.is_file() else None
