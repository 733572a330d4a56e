"""Probabilities of siblings without replacement, where one or two tokens are nearly certain."""

import itertools

import pytest
import torch

from outrider.verifiers.ceiling import followers, pairs_before_a_third

REST = [1e-17, 2e-17, 3e-17]
"""So little that one minus the other probabilities is rounded to nothing."""


def test_something_follows_a_nearly_certain_token() -> None:
    q = torch.tensor([1.0, *REST], dtype=torch.float64)
    assert float(followers(q)[0] * q[1:].sum()) == pytest.approx(1.0, rel=1e-12)


@pytest.mark.parametrize("likely", [[1.0], [0.5, 0.5], [0.25, 0.75]])
def test_a_third_sibling_follows_any_two(likely: list[float]) -> None:
    """Summed over the third, the probability is that of the first two."""
    q = torch.tensor([*likely, *REST], dtype=torch.float64)
    table, following = pairs_before_a_third(q), followers(q)
    for first, second in itertools.permutations(range(len(q)), 2):
        thirds = [token for token in range(len(q)) if token not in (first, second)]
        pair = float(following[first] * q[second])
        assert float(table[first, second] * q[thirds].sum()) == pytest.approx(pair, rel=1e-12)
