"""Annotations are read as the types that they name."""

from typing import Annotated, Any, Literal

from outrider.base.annotations import hints_of, plain_type
from outrider.base.bounds import Above, Count


def test_annotations_that_only_type_checkers_see_count_as_none() -> None:
    def function(path: "Nowhere", n: "Count") -> "Nowhere": ...  # type: ignore[name-defined]

    assert hints_of(function) == {"path": Any, "n": Count, "return": Any}


def test_plain_types_have_no_bounds() -> None:
    assert plain_type(Count) is int
    assert plain_type(Count | None) == int | None
    assert plain_type(Literal["a", "b"]) is str
    assert plain_type(Annotated[float | None, Above(0)]) == float | None
