"""The fixtures of quick commands."""

from tiny.commands import compared, quick

__all__ = ["compared", "quick"]
