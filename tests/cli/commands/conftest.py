"""Draws each kind of figure only once."""

from tiny.commands import sketched

__all__ = ["sketched"]
