"""Suffix decoding: it copies what followed most often, here and in texts that ended before."""

import pytest
from tiny.parts import held

from outrider import Context, Sampling, Tokens
from outrider.drafters.suffix import Past, Suffix
from outrider.targets.tabular import TabularTarget
from outrider.testing.tiny_targets import write_draft

TARGET = TabularTarget(20)


def draft(drafter: Suffix, text: list[int], source: list[int] | None = None) -> tuple[int, ...]:
    context = Context(Tokens(text), None if source is None else Tokens(source))
    return write_draft(drafter, TARGET, context, gamma=6, sampling=Sampling()).tokens


def test_the_draft_is_as_long_as_the_match_allows() -> None:
    text = [1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert draft(Suffix(factor=1), [*text, 3]) == (4,)
    assert draft(Suffix(factor=1), [*text, 1, 2, 3]) == (4, 5, 6)
    assert draft(Suffix(factor=2), [*text, 1, 2]) == (3, 4, 5, 6)
    assert draft(Suffix(), [*text, 10]) == ()


def test_the_most_frequent_continuation_is_copied() -> None:
    assert draft(Suffix(), [1, 2, 9, 1, 3, 8, 1, 2, 7, 1])[0] == 2
    assert draft(Suffix(min_probability=0.7), [1, 2, 9, 1, 3, 8, 1, 2, 7, 1]) == ()
    assert draft(Suffix(), [1, 2, 9, 1, 3, 8, 1])[0] == 3  # the newer one


def test_a_source_comes_before_the_text() -> None:
    assert draft(Suffix(), [0, 5], source=[5, 6, 7])[0] == 6


def test_earlier_texts_help_where_this_one_does_not() -> None:
    drafter = Suffix(factor=2)
    drafter.remember(Context(Tokens([1, 2, 3, 4, 5, 6])))
    assert draft(drafter, [7, 1, 2]) == (3, 4, 5, 6)
    assert draft(drafter.open(), [2, 9, 2, 8, 1, 2]) == (3, 4, 5, 6)  # likelier than 9 or 8
    drafter.remember(Context(Tokens([2, 8, 9])))  # while a text is under way
    assert draft(drafter, [7, 1, 2, 8]) == (9,)
    alone = Suffix(remember=False)
    assert not alone.remembers
    assert draft(alone, [7, 1, 2]) == ()


def test_a_longer_text_meets_the_texts_remembered_meanwhile() -> None:
    drafter = Suffix()
    for text in ([3, 8, 5], [4, 8, 5]):
        drafter.remember(Context(Tokens(text)))
    assert draft(drafter, [7, 1, 2]) == ()
    drafter.remember(Context(Tokens([2, 8, 9])))
    assert draft(drafter, [7, 1, 2, 8]) == (9,)  # after 2 and 8, not after 8 alone


def test_an_interrupted_text_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    drafter = Suffix()
    drafter.remember(Context(Tokens([1, 2, 3])))
    monkeypatch.setattr(held(drafter, Past).texts, "extend", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        drafter.remember(Context(Tokens([4, 5, 6])))
    assert (drafter.remembered, draft(drafter, [1])) == (0, ())
