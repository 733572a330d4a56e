"""The view of the tokens behaves as the list it shows."""

import random

import pytest

from outrider import Context, Tokens


def test_a_view_is_the_list_up_to_its_length() -> None:
    ids = list(range(10, 20))
    for length in range(11):
        view, plain = Tokens(ids, length), ids[:length]
        assert list(view) == plain
        assert view == plain
        for start in (None, -12, -3, 0, 2, 12):
            for stop in (None, -12, -2, 0, 5, 12):
                for step in (None, 1, 2, -1, -3):
                    assert view[start:stop:step] == plain[start:stop:step]
    assert view[-1] == 19
    assert 13 in view


def test_tokens_past_the_view_can_not_be_seen() -> None:
    view = Tokens([1, 2, 3], 2)
    for position in (2, -3):
        with pytest.raises(IndexError, match="of 2 tokens"):
            view[position]
    with pytest.raises(TypeError):
        view[0] = 5  # type: ignore[index]


def test_shared_is_the_longest_common_prefix() -> None:
    draw = random.Random(0)
    for _ in range(500):
        a, b = ([draw.randrange(2) for _ in range(draw.randrange(40))] for _ in range(2))
        b = a[: draw.randrange(len(a) + 1)] + b
        naive = next(
            (i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b))
        )
        assert Tokens(a).shared(Tokens(b)) == Tokens(b).shared(Tokens(a)) == naive
        assert Tokens(a).shared(b) == Tokens(a).shared(tuple(b)) == naive


def test_two_views_of_one_list_compare_without_reading() -> None:
    class Unread(list[int]):
        def __getitem__(self, position: object) -> int:  # type: ignore[override]
            raise AssertionError("read")

    ids = Unread(range(5))
    assert Tokens(ids, 3).shared(Tokens(ids, 5)) == 3


def test_equality_and_repr() -> None:
    assert Tokens([1, 2]) == Tokens([1, 2, 3], 2)
    assert Tokens([1, 2]) != Tokens([1, 3])
    assert Tokens([1, 2]) != 5
    assert repr(Tokens([1, 2])) == "Tokens([1, 2])"
    assert Context(Tokens([1])).features == {}
