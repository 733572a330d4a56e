"""What an annotation allows is checked in one place, and said in one line."""

import errno
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pytest

from outrider import ConfigError
from outrider.base.bounds import (
    Count,
    NewFolder,
    Share,
    check,
    checked,
    values_of,
)
from outrider.base.calling import hints_of
from outrider.base.expectations import Above, AtLeast, OneOf, Within, expected

KNOWN = {"kl": 1, "tv": 2}


@pytest.mark.parametrize(
    ("hint", "right", "wrong", "words"),
    [
        (int, (0, np.int64(-3)), (1.5, True, "x", None), "a whole number"),
        (float, (0, 0.5), (True, "x", float("nan"), float("inf")), "a number"),
        (bool, (True, False), (2, "x", None), "true or false"),
        (Count, (1, 9), (0, -1, 1.5), "a whole number of at least 1"),
        (Count | None, (1, None), (0, "few"), "a whole number of at least 1, or null"),
        (Annotated[float | None, Above(0)], (0.1, None), (0,), "a number above 0, or null"),
        (Share, (0, 1, 0.5), (-0.1, 1.1), "a number in [0, 1]"),
        (Annotated[float, Within("(0, 1]")], (1,), (0,), "a number in (0, 1]"),
        (Literal["plain", "scaled"], ("plain",), ("flat", None), "one of plain, scaled"),
        (Literal[4, 8] | None, (4, 8, None), (5, "4"), "one of 4, 8, or null"),
        (bool | Literal["never"], (True, "never"), ("always",), "true or false, or never"),
        (Annotated[str, OneOf(KNOWN)] | None, (None,), (3,), "one of kl, tv, or null"),
        (Annotated[str, OneOf(KNOWN)], ("kl",), ("l2", 3), "one of kl, tv"),
        (list[str], ([], ["a"]), ("a", [1], None), "a list, each text"),
        (Sequence[Any], ((), [1, "a"]), ("ab",), "a list"),
        (Annotated[list[int], AtLeast(1)], ([2],), ([],), "a list of at least 1, each a whole"),
        (Mapping[str, Any], ({},), ([], None), "a mapping"),
        (Path, ("anything", 3, None), (), "Path"),
    ],
)
def test_an_annotation_decides_the_values_and_the_words(
    hint: Any, right: Sequence[object], wrong: Sequence[object], words: str
) -> None:
    for value in right:
        check({"x": hint}, {"x": value})
    for value in wrong:
        with pytest.raises(ConfigError) as caught:
            check({"x": hint}, {"x": value})
        assert str(caught.value).startswith(f"x={value!r}: expected {words}")
    assert expected(hint).startswith(words)


@dataclass(frozen=True)
class Net:
    """A nested setting."""

    width: int = 8


@pytest.mark.parametrize(
    ("hint", "value", "made"),
    [
        (int, "3", 3),
        (float | None, 1, 1.0),
        (bool, "true", True),
        (int | str, "3", "3"),
        (Net | None, {"width": "3"}, Net(3)),
    ],
)
def test_plain_values_become_values_of_their_annotation(hint: Any, value: Any, made: Any) -> None:
    (judged,) = values_of({"x": hint}, {"x": value}).values()
    assert judged == made and type(judged) is type(made)


@pytest.mark.parametrize("value", [{"widht": 3}, {"width": "few"}])
def test_a_mapping_that_is_no_such_dataclass_is_one_line(value: Any) -> None:
    with pytest.raises(ConfigError, match=r"^x\.wid"):
        values_of({"x": Net | None}, {"x": value})


def test_names_like_the_wrong_one_are_suggested() -> None:
    assert expected(Annotated[str, OneOf(["decode"])], "decod").endswith("did you mean 'decode'?")


def test_functions_classes_and_dataclasses_are_checked_where_they_are_called() -> None:
    @checked("drafter")
    def function(n: Count = 3, *, free: Any = None) -> int:
        return n

    @checked("sampling")
    @dataclass(frozen=True, slots=True)
    class Values:
        share: Share = 0.5

    class Part:
        @checked("policy")
        def __init__(self, n: Count, /, *rest: int, **more: int) -> None:
            self.n = n

    assert function(2) == 2
    assert Values(1).share == 1
    assert Part(4, -1, k=-1).n == 4
    for call, line in (
        (lambda: function(0), "drafter.n=0: expected a whole number of at least 1"),
        (lambda: function(n="few"), "drafter.n='few': expected a whole number of at least 1"),  # type: ignore[arg-type]
        (lambda: Values(share=2), "sampling.share=2: expected a number in"),
        (lambda: Part(0), "policy.n=0: expected a whole"),
    ):
        with pytest.raises(ConfigError) as caught:
            call()
        assert str(caught.value).startswith(line)
    assert list(signature(Values).parameters) == ["share"]
    assert list(signature(Part).parameters) == ["n", "rest", "more"]


def test_places_to_write_to_are_tried_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hints, file = {"out": NewFolder}, tmp_path / "file"
    file.touch()
    for name in (tmp_path / "new" / "folder", tmp_path, tmp_path / "weights.safetensors"):
        check(hints, {"out": str(name)})
    assert [*tmp_path.iterdir()] == [file]
    for name in (file, file / "below", "/proc/new", "x" * 5000):
        with pytest.raises(ConfigError, match=r"^out='.*expected a "):
            check(hints, {"out": str(name)})

    def full(dir: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    with pytest.raises(ConfigError, match="with room"):
        check(hints, {"out": str(tmp_path / "new")})


def test_annotations_that_only_type_checkers_see_count_as_none() -> None:
    def function(path: "Nowhere", n: "Count") -> "Nowhere": ...  # type: ignore[name-defined]

    assert hints_of(function) == {"path": Any, "n": Count, "return": Any}
