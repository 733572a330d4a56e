"""The suffix automaton against plain search, on every short text and on random ones."""

import random
from collections import Counter
from itertools import combinations, product

from tiny.parts import held

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


def test_several_texts_are_counted_as_each_by_itself() -> None:
    chance = random.Random(0)
    for _ in range(150):
        texts = [
            [chance.randrange(3) for _ in range(chance.randrange(8))]
            for _ in range(chance.randrange(1, 5))
        ]
        texts += texts[:2]
        automaton = SuffixAutomaton()
        for text in texts:
            automaton.extend([*text, END])
        query = [chance.randrange(3) for _ in range(12)]
        state, length = ROOT, 0
        for position, token in enumerate(query, start=1):
            state, length = automaton.step(state, length, token)
            found = [
                [
                    (text, end)
                    for text in texts
                    for end in ends(text, query[position - size : position])
                ]
                for size in range(position + 1)
            ]
            assert length == max(size for size in range(position + 1) if size == 0 or found[size])
            following = Counter((*text, END)[end] for text, end in found[length])
            if length and any(token != END for token in following):
                step = automaton.likeliest(state)
                assert step is not None
                most = max(count for token, count in following.items() if token != END)
                assert following[step[1]] == most
                assert step[2] == most / following.total()


def test_a_text_that_comes_again_takes_no_room() -> None:
    automaton = SuffixAutomaton()
    for _ in range(30):
        automaton.extend([1, 2, 1, 3, 1, 2, END])
        automaton.extend([2, 1, 3, END])
    assert len(held(automaton, list)) <= 2 * 11


def test_a_phrase_first_ends_where_it_first_occurs() -> None:
    for text in texts():
        automaton = SuffixAutomaton()
        automaton.extend(text)
        for start, end in combinations(range(len(text) + 1), 2):
            state, length = ROOT, 0
            for token in text[start:end]:
                state, length = automaton.step(state, length, token)
            places = ends(text, text[start:end])
            assert length == end - start
            assert automaton.first_end(state) == (places[0] if places and length else 0)


def test_a_repetition_continues_past_the_end() -> None:
    automaton = SuffixAutomaton()
    automaton.extend([1, 2, 3, 1, 2, 3, 1])
    state, tokens = automaton.repeated()[0], list[int]()
    for _ in range(8):
        step = automaton.likeliest(state)
        state, token, _ = step
        tokens.append(token)
    assert tokens == [2, 3, 1, 2, 3, 1, 2, 3]
