"""The protocol of the bench and its workers: a JSON object per line, each way.

It imports the standard library only, since workers run in environments without Outrider.
"""

import ctypes
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

Answer = Callable[[dict[str, Any]], dict[str, Any]]
"""Takes a question, and returns the answer."""

PR_SET_PDEATHSIG = 1
"""Of <linux/prctl.h>."""

PEAK_MEMORY_UNIT = 1024
"""Bytes in the unit in which Linux reports peak memory."""


def serve(start: Callable[[dict[str, Any]], Answer]) -> None:
    """Answers the questions on stdin until it ends, on stdout; what libraries print goes to stderr.

    What they read themselves is empty.

    start: takes the first line, and returns the function that answers the others. The first reply
        holds only the seconds that this took, and the peak memory.
    """
    bench = os.getppid()
    _continue_without(bench)
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    questions = os.fdopen(os.dup(0))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    answer: Answer | None = None
    for line in questions:
        settings, began = json.loads(line), time.perf_counter()
        try:
            if answer is None:
                answer, reply = start(settings), {}
            else:
                reply = answer(settings)
        except Exception as error:  # noqa: BLE001  # the bench reports it
            reply = {"error": f"{type(error).__name__}: {error}"}
        reply.setdefault("seconds", time.perf_counter() - began)
        reply["peak"] = peak_memory()
        replies.write(json.dumps(reply) + "\n")
        replies.flush()
    if os.getppid() != bench:
        os.killpg(0, signal.SIGCONT)
        os.killpg(0, signal.SIGKILL)


def _continue_without(bench: int) -> None:
    """Has the kernel continue this process when its bench is killed: it is stopped until asked.

    For a process group that is orphaned the kernel does so by itself, but the process that adopts
    this one may be of the same session; then the group is not orphaned.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGCONT)
        if os.getppid() != bench:  # it was killed before
            sys.exit(1)


def peak_memory() -> int:
    """Returns the most bytes of memory that this process has had; 0 where they are not counted."""
    try:
        import resource
    except ImportError:  # Windows
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * PEAK_MEMORY_UNIT
