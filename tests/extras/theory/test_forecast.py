"""What drafts cost and from which alpha they pay, in numbers that are worked out by hand."""

from dataclasses import replace
from typing import Any

import pytest

from outrider import ConfigError
from outrider.extras.theory.draft_costs import drafting_of
from outrider.extras.theory.forecast import forecast, smallest_alpha
from outrider.extras.theory.hardware import Hardware
from outrider.extras.theory.roofline import Place, pass_seconds
from outrider.extras.theory.shapes import Shape
from outrider.theory import expected_tokens

TARGET = Shape(
    layers=10, hidden=8, intermediate=16, heads=4, key_heads=2, head_size=2, vocabulary=50,
    bits=16, dtype="bfloat16",
)  # fmt: skip
"""576 weights a layer and 400 in the table."""

PLACE = Place(Hardware(name="toy", bandwidth=1, peak={"bfloat16": 1e30}, launch=0), context=100)
"""It reads a byte a second, and computes without end."""


def draft_seconds(item: Any, depth: int, nodes: int) -> float:
    return drafting_of(item, TARGET).seconds(PLACE, depth, nodes)


def test_a_lookup_costs_nothing() -> None:
    assert draft_seconds("lookup", 5, 5) == 0


def test_a_head_takes_a_pass_for_each_token_of_depth() -> None:
    """A layer, the table, 2 x 8 x 8 weights that join, and 16 bytes for each token it sees."""
    weights = 576 + 400 + 128
    assert draft_seconds("eagle", 3, 3) == 3 * (2 * weights + 16 * 101)
    assert draft_seconds("eagle", 3, 7) == 3 * (2 * weights + 16 * 103)  # three nodes a pass


def test_a_small_vocabulary_is_read_instead_of_the_target_s() -> None:
    item = {"name": "mine", "kind": "head", "layers": 2, "vocabulary": 10}
    assert draft_seconds(item, 2, 2) == 2 * (2 * (2 * 576 + 80) + 32 * 101)


def test_a_block_takes_one_pass() -> None:
    assert draft_seconds("dflash", 4, 4) == 2 * (5 * 576 + 400) + 5 * 16 * 104


def test_heads_are_read_one_for_each_token() -> None:
    assert draft_seconds("medusa", 4, 4) == 2 * 4 * (64 + 400)


def test_a_forecast_has_the_times_of_its_passes() -> None:
    chain = forecast(TARGET, drafting_of("eagle", TARGET), PLACE, gamma=3)
    assert chain.plain == pass_seconds(TARGET, PLACE, 1)
    assert chain.verify == pass_seconds(TARGET, PLACE, 4)
    assert chain.cost == (chain.draft + chain.verify) / chain.plain
    assert chain.speedup(3.0) == 3.0 / chain.cost
    tree = forecast(TARGET, drafting_of("eagle", TARGET), PLACE, gamma=3, nodes=12)
    assert tree.verify == pass_seconds(TARGET, PLACE, 13)


@pytest.mark.parametrize("gamma", [1, 3, 8])
@pytest.mark.parametrize("alpha", [0.0, 0.25, 0.7, 1.0])
def test_the_smallest_alpha_brings_the_cost_of_a_round(alpha: float, gamma: int) -> None:
    cost = expected_tokens(alpha, gamma)
    found = smallest_alpha(cost, gamma)
    assert (found == pytest.approx(alpha, abs=1e-9)) if alpha < 1 else found is None


def test_a_round_that_costs_too_much_never_pays() -> None:
    assert smallest_alpha(5.0, 4) is None
    assert smallest_alpha(1.0, 4) == 0
    slow = replace(TARGET, layers=30)
    drafting = replace(drafting_of("eagle", TARGET), shape=slow)
    assert forecast(TARGET, drafting, PLACE, gamma=5).pays_from is None


def test_an_unknown_drafter_is_one_line() -> None:
    with pytest.raises(ConfigError, match=r"^drafters: 'eagel': did you mean 'eagle'"):
        drafting_of("eagel", TARGET)
    with pytest.raises(ConfigError, match=r"^drafters: mine.kind='hat': expected lookup, model"):
        drafting_of({"name": "mine", "kind": "hat"}, TARGET)
