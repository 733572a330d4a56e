"""Runs as pages, figures and tables for notebooks: `load` reads runs into data frames."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from outrider.lab.runs.frames import Frames, load

__all__ = ["Frames", "load"]


def __getattr__(name: str) -> Any:
    """Imports what reads runs when it is first used: commands import this package too."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("outrider.lab.runs.frames"), name)
