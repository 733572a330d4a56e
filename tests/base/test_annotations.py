"""Annotations are read as the types that they name."""

from typing import Any

from outrider.base.annotations import hints_of
from outrider.base.bounds import Count


def test_annotations_that_only_type_checkers_see_count_as_none() -> None:
    def function(path: "Nowhere", n: "Count") -> "Nowhere": ...  # type: ignore[name-defined]

    assert hints_of(function) == {"path": Any, "n": Count, "return": Any}
