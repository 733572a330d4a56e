"""Draws each kind of figure only once."""

import pytest


@pytest.fixture(autouse=True)
def sketched(drawn_once: None) -> None:
    """No test here is about the figures."""
