"""The suffix automaton against plain search, on every short text and on random ones."""

import random
from collections import Counter
from itertools import product

from outrider.drafters.parts.texts.suffix_automaton import END, ROOT, SuffixAutomaton


def ends(text: list[int], phrase: list[int]) -> list[int]:
    """Returns the positions after each occurrence of a phrase."""
    size = len(phrase)
    return [end for end in range(size, len(text) + 1) if text[end - size : end] == phrase]


def texts() -> list[list[int]]:
    chance = random.Random(0)
    long = [[chance.randrange(3) for _ in range(40)] for _ in range(10)]
    return [list(text) for size in range(1, 7) for text in product(range(2), repeat=size)] + long


def test_the_automaton_finds_the_longest_repeated_suffix() -> None:
    for text in texts():
        automaton = SuffixAutomaton()
        automaton.extend(text)
        expected = max(
            size for size in range(len(text)) if size == 0 or len(ends(text, text[-size:])) > 1
        )
        assert automaton.repeated()[1] == expected, text


def test_the_automaton_follows_another_text_and_counts_next_tokens() -> None:
    for text in texts():
        automaton, query = SuffixAutomaton(), [*text[::-1], *text[1:4], 1, 0]
        automaton.extend(text)
        state, length = ROOT, 0
        for position, token in enumerate(query, start=1):
            state, length = automaton.step(state, length, token)
            read = query[:position]
            expected = next(
                size for size in range(position, -1, -1) if size == 0 or ends(text, read[-size:])
            )
            assert length == expected, (text, read)
            if not length:
                continue
            following = Counter(text[end] for end in ends(text, read[-length:]) if end < len(text))
            first = automaton.likeliest(state)
            if following:
                assert first is not None
                most = max(following.values())
                assert following[first[1]] == most
                assert first[2] == most / following.total()


def test_no_match_reaches_from_one_text_to_the_next() -> None:
    automaton = SuffixAutomaton()
    automaton.extend([5, 6, END, 7, 8, END])
    state, length = automaton.step(ROOT, 0, 6)
    assert (length, automaton.likeliest(state)) == (1, None)
    assert automaton.step(state, length, 7)[1] == 1


def test_a_repetition_continues_past_the_end() -> None:
    automaton = SuffixAutomaton()
    automaton.extend([1, 2, 3, 1, 2, 3, 1])
    state, tokens = automaton.repeated()[0], list[int]()
    for _ in range(8):
        step = automaton.likeliest(state)
        assert step is not None
        state, token, _ = step
        tokens.append(token)
    assert tokens == [2, 3, 1, 2, 3, 1, 2, 3]
