"""Acceptance in the field's terms, on rounds whose lengths are known."""

import random
from types import SimpleNamespace
from typing import Any

import pytest

from outrider import Context, Drafter, Pen, Sampling, decode
from outrider.lab.measuring.measurement import Decoding, Measurement, Step
from outrider.lab.statistics.acceptance import acceptance, by_rank, expected_tokens
from outrider.lab.statistics.rates import RATES
from outrider.targets.tabular import TabularTarget
from outrider.verifiers.recursive import WithoutReplacement


def text(*lengths: int) -> Any:
    steps = [SimpleNamespace(tokens=(0,) * length) for length in lengths]
    return SimpleNamespace(decoding=SimpleNamespace(steps=steps))


def test_lengths_and_rates_by_position_are_counted() -> None:
    found = acceptance([[text(1, 3), text(2)], [text(4, 4, 1, 1)]], gamma=4)
    assert found.acceptance_length_histogram == {1: 3, 2: 1, 3: 1, 4: 2}
    assert found.mean_acceptance_length.value == pytest.approx(16 / 7)
    assert found.mean_acceptance_length_per_request.value == pytest.approx((2 + 2 + 2.5) / 3)
    assert found.marginal_accept_rates == pytest.approx((4 / 7, 3 / 7, 2 / 7, 0))
    assert found.conditional_accept_rates == pytest.approx((4 / 7, 3 / 4, 2 / 3, 0))
    assert 1 + sum(found.marginal_accept_rates) == pytest.approx(found.mean_acceptance_length.value)


def test_a_position_that_no_draft_reached_has_no_conditional_rate() -> None:
    found = acceptance([[text(1, 1)]], gamma=2)
    assert found.conditional_accept_rates == (0, None)
    assert acceptance([[SimpleNamespace(decoding=None)]], gamma=2) is None  # type: ignore[list-item]


def step(accepted: int, drafted: int, *, rejected: bool, stop: str | None = None) -> Step:
    tested = accepted + rejected
    return Step((), (), (), drafted, tested, accepted, (), (), 0.0, 0.0, 0.0, stop)


def test_a_round_that_a_stop_cut_is_censored() -> None:
    full = [step(3, 3, rejected=False)] * 6
    assert expected_tokens(full, 3) == [2, 3, 4]
    # Rounds that a stop cut after one or two tokens do not lower the estimate.
    cut = [
        step(1, 1, rejected=False, stop="max_new_tokens"),
        step(2, 2, rejected=False, stop="eos"),
    ]
    assert expected_tokens([*full, *cut], 3) == [2, 3, 4]
    # A rejection, or a draft that ended by itself, does.
    assert expected_tokens([*full, *[step(1, 3, rejected=True)] * 6], 3) == [2, 2.5, 3]
    assert expected_tokens([*full, *[step(1, 1, rejected=False)] * 6], 3) == [2, 2.5, 3]
    last = step(1, 3, rejected=True, stop="max_new_tokens")
    assert expected_tokens([*full, *[last] * 6], 3) == [2, 2.5, 3]


def test_simulated_rounds_cut_at_random_give_the_known_tokens() -> None:
    """Geometric acceptance of .7, gamma 5, every text cut after 12 tokens."""
    draw = random.Random(0)
    steps: list[Step] = []
    for _ in range(4000):
        left = 12
        while left:
            depth = min(5, left - 1)
            accepted = 0
            while accepted < depth and draw.random() < 0.7:
                accepted += 1
            left -= accepted + 1
            stop = None if left else "max_new_tokens"
            steps.append(step(accepted, depth, rejected=accepted < depth, stop=stop))
    expected = [sum(0.7**i for i in range(gamma + 1)) for gamma in range(1, 6)]
    assert expected_tokens(steps, 5) == pytest.approx(expected, rel=0.02)
    naive = sum(cut.accepted + 1 for cut in steps) / len(steps)
    assert naive < expected[-1] * 0.95  # the bias that censoring removes
    text = Decoding(tuple(steps), 1.0, 1.0, 1.0)
    prompts = [[Measurement("a", 1, "chat", "drafter", decoding=text)]]
    rate = RATES["block_efficiency_uncut"].statistic(prompts)
    assert rate.value == pytest.approx(expected[-1], rel=0.02)


class Known(Drafter):
    """Three siblings and, below the second, two: the tokens themselves are fixed."""

    kind = "distinct"

    def propose(self, context: Context, pen: Pen) -> None:
        if pen.room >= 5 and pen.gamma >= 2:
            for token in (2, 0, 1):
                pen.write(token, after=-1)
            for token in (1, 2):
                pen.write(token, after=1)


def test_acceptance_by_rank_is_that_of_the_places_that_were_tested() -> None:
    target = TabularTarget(vocab_size=3, seed=2)
    rounds = list(
        decode(
            target,
            Known(),
            WithoutReplacement(),
            [0, 1],
            gamma=2,
            budget=5,
            sampling=Sampling(temperature=1.0),
            max_new_tokens=400,
        )
    )
    steps = tuple(map(Step.of, rounds))
    for step, round in zip(steps, rounds, strict=True):
        assert len(step.ranks) == round.accepted
        if round.draft and round.tested:
            # The root has all three tokens, so the rank there says which token was emitted.
            assert (2, 0, 1)[step.ranks[0]] == round.tokens[0]
            assert step.siblings == ((3, 2) if step.ranks[0] == 1 else (3,))[: round.tested]
    rates = by_rank([Decoding(steps, 1.0, 1.0, 1.0)])
    assert rates is not None
    roots = [step.ranks[0] for step in steps if step.siblings]
    below = [step for step in steps if len(step.siblings) == 2]
    tested = len(roots) + len(below)
    first = roots.count(0) + sum(step.ranks[1:] == (0,) for step in below)
    assert rates == pytest.approx(
        [
            first / tested,
            (roots.count(1) + sum(step.ranks[1:] == (1,) for step in below)) / tested,
            roots.count(2) / len(roots),
        ]
    )
    assert below and 0 < rates[2] < 1


def test_chains_have_no_ranks() -> None:
    assert by_rank([Decoding((step(2, 3, rejected=True),), 1.0, 1.0, 1.0)]) is None
