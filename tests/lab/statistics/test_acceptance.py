"""Acceptance in the field's terms, on rounds whose lengths are known."""

from types import SimpleNamespace
from typing import Any

import pytest

from outrider.lab.statistics.acceptance import acceptance


def text(*lengths: int) -> Any:
    steps = [SimpleNamespace(tokens=(0,) * length) for length in lengths]
    return SimpleNamespace(decoding=SimpleNamespace(steps=steps))


def test_lengths_and_rates_by_position_are_counted() -> None:
    found = acceptance([[text(1, 3), text(2)], [text(4, 4, 1, 1)]], gamma=4)
    assert found.histogram == {1: 3, 2: 1, 3: 1, 4: 2}
    assert found.mean.value == pytest.approx(16 / 7)
    assert found.mean_per_request.value == pytest.approx((2 + 2 + 2.5) / 3)
    assert found.marginal == pytest.approx((4 / 7, 3 / 7, 2 / 7, 0))
    assert found.conditional == pytest.approx((4 / 7, 3 / 4, 2 / 3, 0))
    assert 1 + sum(found.marginal) == pytest.approx(found.mean.value)
    assert found.plain()["acceptance_length_histogram"] == {"1": 3, "2": 1, "3": 1, "4": 2}


def test_a_position_that_no_draft_reached_has_no_conditional_rate() -> None:
    found = acceptance([[text(1, 1)]], gamma=2)
    assert found.conditional == (0, None)
    assert acceptance([[SimpleNamespace(decoding=None)]], gamma=2) is None  # type: ignore[list-item]
