"""The fixtures of comparisons on tiny models, of quick commands, and of a browser."""

from tiny.commands import compared, quick
from tiny.comparisons import browser, drafters, run_in, serve, target, whole_run

__all__ = [
    "browser",
    "compared",
    "drafters",
    "quick",
    "run_in",
    "serve",
    "target",
    "whole_run",
]
