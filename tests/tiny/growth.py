"""How the work of a call grows with its input: lines of Outrider that run, not seconds."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any
from unittest.mock import patch

from outrider import Tokens


def operations(call: Callable[[], object]) -> int:
    """Returns how many lines of Outrider's own code a call runs, and how many ids it copies."""
    count = 0
    get: Callable[..., Any] = Tokens.__getitem__

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        if not str(frame.f_globals.get("__name__", "")).startswith("outrider."):
            return None
        count += event == "line"
        return trace

    def counted(tokens: Tokens, index: int | slice) -> Any:
        nonlocal count
        found = get(tokens, index)
        count += len(found) if isinstance(index, slice) else 0
        return found

    before = sys.gettrace()
    with patch.object(Tokens, "__getitem__", counted):
        sys.settrace(trace)
        try:
            call()
        finally:
            sys.settrace(before)
    return count


def growth(call_of: Callable[[int], Callable[[], object]], size: int) -> float:
    """Returns how many times more operations there are for an input of twice the size."""
    return operations(call_of(2 * size)) / operations(call_of(size))
