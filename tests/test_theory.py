"""The papers' formulas against the papers' own numbers."""

import itertools

import pytest
import torch

from outrider import ConfigError, theory


def test_the_whole_table_is_the_sum_of_powers_over_the_cost() -> None:
    for alpha, gamma, c in itertools.product((0.5, 0.6, 0.7, 0.8), (3, 4, 5, 6), (0.01, 0.05)):
        tokens = sum(alpha**i for i in range(gamma + 1))
        assert theory.expected_tokens(alpha, gamma) == pytest.approx(tokens, rel=1e-12)
        assert theory.walltime_improvement(alpha, gamma, c) == pytest.approx(
            tokens / (1 + gamma * c), rel=1e-12
        )


def test_the_ends_of_alpha() -> None:
    assert theory.expected_tokens(0, 7) == 1
    assert theory.expected_tokens(1, 7) == 8
    assert theory.expected_tokens(1 - 1e-12, 7) == pytest.approx(8, rel=1e-4)


def test_a_measured_share_of_places_gives_the_speedup() -> None:
    """Chen et al. take r' (gamma + 1) / (gamma c + 1), however acceptances depend on each other."""
    assert theory.filled_share(4.0625, 4) == 0.8125
    assert pytest.approx(2.46, abs=0.005) == 0.8125 * 5 / (4 * 11.9 / 73.3 + 1)
    # With independent acceptance this is Theorem 3.8.
    share = theory.filled_share(theory.expected_tokens(0.7, 5), 5)
    assert share * 6 / (5 * 0.05 + 1) == pytest.approx(
        theory.walltime_improvement(0.7, 5, 0.05), rel=1e-12
    )


@pytest.mark.parametrize("alpha", [0.1, 0.5, 0.8, 0.97])
@pytest.mark.parametrize("c", [0.0, 0.01, 0.05, 0.3, 0.6])
def test_the_optimal_gamma_is_the_best_of_all(alpha: float, c: float) -> None:
    gains = [theory.walltime_improvement(alpha, gamma, c) for gamma in range(65)]
    best = theory.optimal_gamma(alpha, c)
    assert gains[best] == max(gains)
    assert (best > 0) == (alpha > c)
    assert max(gains) >= theory.smallest_gain(alpha, c) - 1e-12
    assert max(gains) <= theory.oracle_improvement(alpha, c) + 1e-12


def test_the_oracle_pays_for_accepted_tokens_alone() -> None:
    """By simulation: draft exactly as many as will be accepted, over geometric runs."""
    alpha, c, rounds = 0.7, 0.1, 200_000
    torch.manual_seed(0)
    runs = torch.distributions.Geometric(torch.tensor(1 - alpha)).sample((rounds,))
    simulated = float((runs + 1).sum() / (1 + c * runs).sum())
    assert theory.oracle_improvement(alpha, c) == pytest.approx(simulated, rel=0.01)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: theory.expected_tokens(1.2, 3), r"alpha=1\.2: expected a number in \[0, 1\]"),
        (lambda: theory.expected_tokens(0.2, -1), "gamma=-1: expected a whole number"),
        (lambda: theory.walltime_improvement(0.2, 1, -0.1), r"c=-0\.1: expected a number"),
        (lambda: theory.oracle_improvement(1, 0), "c=0: expected above 0 where alpha is 1"),
    ],
)
def test_senseless_arguments_are_refused(call: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        call()  # type: ignore[operator]
