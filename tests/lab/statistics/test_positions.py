"""Acceptance is counted at the position where a round begins."""

from dataclasses import replace

import pytest

from outrider.lab.measuring.measurement import Decoding, Measurement, Step
from outrider.lab.statistics.positions import by_context, by_order, by_position


def step(tokens: int, tested: int, accepted: int) -> Step:
    return Step((7,) * tokens, (), (), 3, tested, accepted, (), (), 0.1, 0.0, 0.0, None)


TEXT = Decoding((step(30, 4, 3), step(2, 2, 1), step(4, 0, 0), step(1, 5, 5)), 1.0, 1.0, 1.0)


def measured(text: Decoding) -> list[Measurement]:
    return [Measurement("a", 1, "chat", "x", decoding=text)]


def test_a_round_counts_where_it_begins() -> None:
    early, late = by_position([measured(TEXT), measured(TEXT)])
    assert (early.first, early.last, early.tested) == (0, 31, 12)
    assert early.alpha_tested.value == pytest.approx(8 / 12)
    assert early.alpha_tested.low is None  # of two prompts
    assert (late.first, late.last, late.tested, late.alpha_tested.value) == (32, 63, 10, 1)


def test_contexts_double_and_need_the_length_of_the_prompt() -> None:
    assert by_context([measured(TEXT)]) == []
    stretches = by_context([measured(replace(TEXT, prompt_tokens=100))])
    assert [(s.first, s.last, s.tested) for s in stretches] == [(64, 127, 4), (128, 255, 7)]
    assert stretches[1].alpha_tested.value == pytest.approx(6 / 7)


def test_prompts_are_counted_in_their_order() -> None:
    counts = (1, 2, 3, 4, 5)
    texts = [replace(TEXT, steps=(step(9, 5, count),)) for count in counts]
    stretches = by_order([measured(text) for text in texts])
    assert [(s.first, s.last, s.tested) for s in stretches] == [(1, 1, 5), (2, 3, 10), (4, 7, 10)]
    assert [s.alpha_tested.value for s in stretches] == pytest.approx([1 / 5, 5 / 10, 9 / 10])
