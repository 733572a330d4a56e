"""The papers' formulas: what acceptance is worth.

Unless another source is named they are those of Leviathan et al. (arXiv 2211.17192), who take
acceptances as independent with the same probability `alpha` at each place.

>>> expected_tokens(alpha=0.8, gamma=5)
3.68928
>>> walltime_improvement(alpha=0.7, gamma=5, c=0.05)
2.3529...
"""

from jaxtyping import Float
from torch import Tensor

from outrider.errors import require


def expected_tokens(alpha: float, gamma: int) -> float:
    """Returns the tokens of one target call, 1 + alpha + ... + alpha^gamma (Equation 1)."""
    _check(alpha, gamma)
    return float(gamma + 1) if alpha == 1 else (1 - alpha ** (gamma + 1)) / (1 - alpha)


def walltime_improvement(alpha: float, gamma: int, c: float) -> float:
    """Returns how many times faster than plain decoding (Theorem 3.8).

    c: seconds of one draft token over seconds of one target call. Scoring gamma + 1 tokens is
        taken to cost as much as scoring one.
    """
    return expected_tokens(alpha, gamma) / (_cost(c) * gamma + 1)


def smallest_gain(alpha: float, c: float) -> float:
    """Returns the improvement that some gamma reaches wherever alpha > c (Corollary 3.9).

    Where alpha <= c no gamma helps, and it is 1: plain decoding.
    """
    _check(alpha, 0)
    return (1 + alpha) / (1 + c) if alpha > _cost(c) else 1.0


def operations(alpha: float, gamma: int, c_hat: float) -> float:
    """Returns the arithmetic done, over that of plain decoding (Theorem 3.11).

    c_hat: operations of one draft token over those of one target token.
    """
    return (gamma * _cost(c_hat) + gamma + 1) / expected_tokens(alpha, gamma)


def optimal_gamma(alpha: float, c: float, most: int = 64) -> int:
    """Returns the whole gamma from 0 to `most` with the largest improvement (section 3.5).

    0 says that drafting does not pay. The improvement has one peak, up to equal values.
    """
    return max(range(most + 1), key=lambda gamma: (walltime_improvement(alpha, gamma, c), -gamma))


def oracle_improvement(alpha: float, c: float) -> float:
    """Returns the bound no choice of gamma exceeds: an oracle that stops before each rejection.

    It pays for the alpha / (1 - alpha) draft tokens that will be accepted and for one target
    call, which together give 1 / (1 - alpha) tokens (section 3.5).

    Raises:
        ConfigError: alpha and c leave it infinite.
    """
    _check(alpha, 0)
    paid = 1 - alpha + _cost(c) * alpha
    require(paid > 0, "c", c, "above 0 where alpha is 1")
    return 1 / paid


def filled(block_efficiency: float, gamma: int) -> float:
    """Returns r', the share of gamma + 1 places that a round fills (cf. Chen et al. 2302.01318)."""
    _check(0, gamma)
    return block_efficiency / (gamma + 1)


def filled_improvement(r: float, gamma: int, target: float, draft: float) -> float:
    """Returns how many times faster than plain decoding a measured r' is.

    r: see `filled`; it holds however acceptances depend on each other.
    target, draft: seconds of a target call, and of one draft token.
    """
    require(target > 0, "target", target, "a number above 0")
    return r * (gamma + 1) / (gamma * _cost(draft / target) + 1)


def lenient_alpha(
    p: Float[Tensor, "*rows vocab"], q: Float[Tensor, "*rows vocab"], lenience: float
) -> Float[Tensor, "*rows"]:
    """Returns sum_x min(p(x) / l, q(x)), the acceptance under lenience l (Appendix A.5)."""
    require(0 < lenience <= 1, "lenience", lenience, "a number in (0, 1]")
    return (p / lenience).minimum(q).sum(-1)


def _check(alpha: float, gamma: int) -> None:
    require(0 <= alpha <= 1, "alpha", alpha, "a number in [0, 1]")
    require(gamma >= 0, "gamma", gamma, "a whole number of at least 0")


def _cost(c: float) -> float:
    require(c >= 0, "c", c, "a number of at least 0")
    return c
