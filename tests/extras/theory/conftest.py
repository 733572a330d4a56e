"""The fixtures of comparisons on tiny models."""

from tiny.comparisons import drafters, run_in, target, whole_run

__all__ = ["drafters", "run_in", "target", "whole_run"]
