"""The factors account for the difference between predicted and measured speedup."""

import math
import random

import pytest

from outrider import theory
from outrider.lab.measuring.measurement import Decoding, Step
from outrider.lab.statistics.intervals import Interval
from outrider.lab.statistics.prediction import FACTORS, predict


def decoded(
    alpha: float, gamma: int, c: float, *, score: float, overhead: float, rounds: int = 20_000
) -> tuple[Decoding, float]:
    """Returns a text whose rounds cost exactly what the arguments say, and its speedup."""
    draw = random.Random(1)
    steps = [Step((0,), ("bonus",), ("",), 0, 0, 0, (), (), 0.0, 1.0, 0.0, None)]
    for _ in range(rounds):
        accepted = 0
        while accepted < gamma and draw.random() < alpha:
            accepted += 1
        tested = min(gamma, accepted + 1)
        tokens = tuple(range(accepted + 1))
        steps.append(
            Step(tokens, ("x",) * len(tokens), ("",) * len(tokens), gamma, tested, accepted, (), (),
                 gamma * c, score, overhead, None)
        )  # fmt: skip
    seconds = sum(step.draft + step.score + step.verify for step in steps)
    emitted = sum(len(step.tokens) for step in steps)
    return Decoding(tuple(steps), seconds, 1.0, 1.0), emitted / seconds


def test_where_theory_holds_the_prediction_is_the_measurement() -> None:
    text, speedup = decoded(0.7, 5, 0.05, score=1.0, overhead=0.0)
    prediction = predict([text], 5, Interval(speedup, None, None))
    assert prediction.cost_ratio == pytest.approx(0.05)
    assert prediction.predicted_speedup == pytest.approx(2.353, rel=0.02)
    assert prediction.predicted_speedup == pytest.approx(speedup, rel=0.02)
    assert all(factor == pytest.approx(1, rel=0.02) for factor in prediction.factors.values())
    assert prediction.optimal_gamma == theory.optimal_gamma(0.7, 0.05)


def test_the_factors_name_the_costs_that_theory_leaves_out() -> None:
    text, speedup = decoded(0.7, 5, 0.05, score=1.6, overhead=0.1)
    prediction = predict([text], 5, Interval(speedup, None, None))
    assert prediction.score_ratio == pytest.approx(1.6)
    assert prediction.overhead == pytest.approx(0.1)
    assert prediction.factors["scoring"] == pytest.approx(1.25 / 1.85)
    assert prediction.factors["overhead"] == pytest.approx(1.85 / 1.95)
    assert set(prediction.factors) == set(FACTORS)
    product = prediction.predicted_speedup * math.prod(prediction.factors.values())
    assert product == pytest.approx(speedup, rel=1e-12)


def test_silence_counts_as_rejection() -> None:
    """Prompt lookup that drafts in one round of two was predicted as if it always drafted."""
    drafting, silent = (
        Step(tokens, ("x",) * len(tokens), ("",) * len(tokens), drafted, drafted, drafted, (), (),
             0.0, 1.0, 0.0, None)
        for tokens, drafted in (((1, 2, 3), 2), ((1,), 0))
    )  # fmt: skip
    text = Decoding((silent, *[drafting, silent] * 100), 201.0, 1.0, 1.0)
    prediction = predict([text], 2, Interval(400 / 201, None, None))
    # Of 200 drafted tokens all are accepted, but 100 rounds drafted none: alpha is 2/3, not 1.
    assert prediction.predicted_speedup == pytest.approx(theory.expected_tokens(2 / 3, 2))
    assert prediction.factors["stretches"] == pytest.approx(2 / theory.expected_tokens(2 / 3, 2))


def test_without_a_draft_no_speedup_is_predicted() -> None:
    plain = Decoding(
        (Step((0,), ("bonus",), ("",), 0, 0, 0, (), (), 0, 1, 0, None),) * 3, 3.0, 1.0, 1.0
    )
    assert predict([plain], 5, Interval(1, None, None)) is None
