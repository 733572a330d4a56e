"""The papers' formulas for the speedup that follows from acceptance.

They are those of Leviathan et al. (arXiv 2211.17192), except where another source is named. They
assume that each draft token is accepted with the same probability `alpha`, independently of others.

>>> expected_tokens(alpha=0.8, gamma=5)
3.68928
>>> walltime_improvement(alpha=0.7, gamma=5, c=0.05)
2.3529...
"""

from typing import Annotated

from outrider.base.bounds import NonNegative, Share, checked
from outrider.base.errors import require
from outrider.base.expectations import AtLeast


def expected_tokens(alpha: float, gamma: int) -> float:
    """Returns the expected tokens per call, 1 + alpha + ... + alpha^gamma (Equation 1)."""
    _check(alpha, gamma)
    return float(gamma + 1) if alpha == 1 else (1 - alpha ** (gamma + 1)) / (1 - alpha)


def walltime_improvement(alpha: float, gamma: int, c: float) -> float:
    """Returns the expected speedup over plain decoding (Theorem 3.8).

    It assumes that scoring gamma + 1 tokens takes as long as scoring one.

    c: cost ratio, the seconds of one draft token over the seconds of one target call.
    """
    return expected_tokens(alpha, gamma) / (_cost(c) * gamma + 1)


def smallest_gain(alpha: float, c: float) -> float:
    """Returns a speedup that some gamma is sure to reach (Corollary 3.9).

    It is (1 + alpha) / (1 + c) if alpha > c. Otherwise it is 1: no gamma helps.
    """
    _check(alpha, 0)
    return (1 + alpha) / (1 + c) if alpha > _cost(c) else 1.0


def operations(alpha: float, gamma: int, c_hat: float) -> float:
    """Returns the expected arithmetic operations, relative to plain decoding (Theorem 3.11).

    c_hat: the operations of one draft token over those of one target token.
    """
    return (gamma * _cost(c_hat) + gamma + 1) / expected_tokens(alpha, gamma)


def optimal_gamma(alpha: float, c: float, most: int = 64) -> int:
    """Returns the gamma from 0 to `most` with the largest expected speedup (section 3.5).

    Of several with the same speedup it is the smallest; 0 means that drafting does not pay.
    """
    return max(range(most + 1), key=lambda gamma: (walltime_improvement(alpha, gamma, c), -gamma))


def oracle_improvement(alpha: float, c: float) -> float:
    """Returns the speedup of an oracle that stops drafting before each rejection (section 3.5).

    No choice of gamma exceeds it. The oracle pays for the alpha / (1 - alpha) draft tokens that
    will be accepted and for one target call, which together give 1 / (1 - alpha) tokens.

    Raises `ConfigError` if the speedup is infinite, because alpha is 1 and c is 0.
    """
    _check(alpha, 0)
    cost_per_token = 1 - alpha + _cost(c) * alpha
    require(cost_per_token > 0, "c", c, "above 0 where alpha is 1")
    return 1 / cost_per_token


def filled_share(block_efficiency: float, gamma: int) -> float:
    """Returns r', the share of the gamma + 1 tokens per round that are emitted.

    Compare Chen et al. (2302.01318).
    """
    _check(0, gamma)
    return block_efficiency / (gamma + 1)


@checked()
def _check(alpha: Share, gamma: Annotated[int, AtLeast(0)]) -> None:
    """Raises `ConfigError` unless these can be an acceptance and a draft length."""


@checked()
def _cost(c: NonNegative) -> float:
    return c
