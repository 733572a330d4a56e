"""The fixtures of comparisons on tiny models, and of a browser."""

from tiny.comparisons import browser, drafters, run_in, serve, target, whole_run

__all__ = [
    "browser", "drafters", "run_in", "serve", "target", "whole_run",
]  # fmt: skip
