"""A drafter that drafts nothing keeps the contract."""

from collections.abc import Callable
from typing import Any

from outrider.drafters.none import NoDraft
from outrider.testing import parametrize_with_checks


@parametrize_with_checks([NoDraft])
def test_conformance(make: Callable[[], Any], check: Callable[[Any], None]) -> None:
    check(make)
