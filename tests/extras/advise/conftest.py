"""The fixtures of comparisons on tiny models."""

from tiny.comparisons import target

__all__ = ["target"]
