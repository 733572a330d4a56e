"""Talk between the bench and a worker: one JSON object a line, each way. Imports nothing installed."""

import json
import os
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

Answer = Callable[[dict[str, Any]], dict[str, Any]]
"""From a question to its answer."""

PEAK = 1024
"""Bytes in the unit that Linux counts peak memory in."""


def serve(start: Callable[[dict[str, Any]], Answer]) -> None:
    """Answers questions until there are no more; what libraries print goes to stderr.

    start: is given the first line, and gives what answers the others. The first reply says how
        many seconds that took.
    """
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    answer: Answer | None = None
    for line in sys.stdin:
        given, began = json.loads(line), time.perf_counter()
        try:
            if answer is None:
                answer, said = start(given), {}
            else:
                said = answer(given)
        except Exception as error:  # noqa: BLE001  # whatever it is, the other side says it
            said = {"error": f"{type(error).__name__}: {error}"}
        said.setdefault("seconds", time.perf_counter() - began)
        said["peak"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * PEAK
        replies.write(json.dumps(said) + "\n")
        replies.flush()
