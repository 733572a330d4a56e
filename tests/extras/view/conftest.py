"""The fixtures of comparisons on tiny models, and of a browser."""

from collections.abc import Iterator
from typing import Any

import pytest
from tiny.browsing import Opener
from tiny.comparisons import browser, drafters, run_in, serve, target, whole_run

__all__ = [
    "browser", "drafters", "run_in", "serve", "target", "whole_run",
]  # fmt: skip


@pytest.fixture
def opener(browser: Any) -> Iterator[Opener]:
    """Opens pages in a context of their own; browsers ask a server for an icon by themselves."""
    opener = Opener(browser, ignored=("favicon", "404"))
    yield opener
    opener.close()
