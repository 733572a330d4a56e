"""Tiny random models of every architecture of transformers, and the ways to write with them."""

NO_BROWSER = "no browser starts"
"""Why the tests of pages are skipped."""
