"""Shallow aggressive decoding copies the source from where the text is, and from nowhere else."""

import itertools

from outrider import Context, Sampling, Tokens, decode
from outrider.targets.tabular import TabularTarget
from outrider.testing.tiny_targets import write_draft
from outrider.verifiers.token import Token

from outrider_more_drafters.shallow_aggressive import ShallowAggressive

START = 0
TARGET = TabularTarget(99, order=0, encoder=True)


def draft(
    source: list[int], text: list[int], gamma: int = 4, drafter: ShallowAggressive | None = None
) -> list[int]:
    context = Context(Tokens([START, *text]), Tokens(source))
    drafter = drafter or ShallowAggressive()
    written = write_draft(drafter, TARGET, context, gamma=gamma, sampling=Sampling())
    assert all(probs is None for probs in written.probs)
    return list(written.tokens)


def searched(source: list[int], text: list[int]) -> int | None:
    """Tries every suffix of the text at every position, as the paper describes it."""
    if text == source[: len(text)]:
        return len(text)
    for n in range(1, len(text) + 1):
        ends = [end for end in range(n, len(source) + 1) if source[end - n : end] == text[-n:]]
        if len(ends) == 1:
            return ends[0]
    return None


def test_matches_are_those_of_a_search_of_every_suffix() -> None:
    for size in (1, 4, 5):
        for source in map(list, itertools.product(range(3), repeat=size)):
            for length in range(4):
                for text in map(list, itertools.product(range(3), repeat=length)):
                    position = searched(source, text)
                    expected = [] if position is None else source[position : position + 4]
                    assert draft(source, text) == expected, (source, text)


def test_a_text_that_is_cut_back_or_has_another_source_is_read_anew() -> None:
    drafter = ShallowAggressive()
    for text in ([11, 50, 13], [11, 50], [11], [11, 12, 50, 16], [], [12, 14]):
        for source in ([11, 12, 13, 14, 15, 16, 17], [13, 12, 11]):
            assert draft(source, text, drafter=drafter) == draft(source, text)


def test_a_target_that_copies_is_right_in_one_call() -> None:
    """A tabular target whose next token depends on its source alone, which it copies."""
    target = TabularTarget(6, order=0, encoder=True)
    target.table = target.table.sort(dim=-1, descending=True).values
    source = [3, 1, 4, 1, 5, 2]
    rounds = list(decode(target, ShallowAggressive(), Token(), source, gamma=5, max_new_tokens=6))
    assert [round.tokens for round in rounds] == [tuple(source)]
    assert rounds[0].accepted == 5
