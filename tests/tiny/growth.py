"""How the work of a call grows with its input: lines of Outrider that run, not seconds."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def lines_run(call: Callable[[], object]) -> int:
    """Returns how many lines of Outrider's own code a call runs."""
    count = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        if not str(frame.f_globals.get("__name__", "")).startswith("outrider."):
            return None
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return count


def growth(call_of: Callable[[int], Callable[[], object]], size: int) -> float:
    """Returns how many times more lines run for an input of twice the size."""
    return lines_run(call_of(2 * size)) / lines_run(call_of(size))
