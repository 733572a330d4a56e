"""KSeq: SpecTr's rule, which gives each of the siblings the same chance."""

from typing import final

from jaxtyping import Float
from torch import Tensor

from outrider.contract.chance import Chance
from outrider.contract.draft import ROOT, Draft
from outrider.contract.verifier import Scores, Verdict, Verifier
from outrider.plugins.hookspecs import Register, hookimpl

STEPS = 60
"""Halvings of the interval of rho: to the last bit of a float."""


@final
class KSeq(Verifier):
    """K-SEQ (SpecTr, 2310.15141, Algorithm 3): each of K i.i.d. siblings in turn is accepted with
    probability min(1, p(x) / (rho q(x))).

    rho is the smallest in [1, K] at which no token comes out too often; if none is accepted the
    token is drawn from what is left of p. Lossless, and (1 - 1/e) of the best there is
    for K drafts (their Theorem 2). With one sibling it is the token rule.
    """

    lossless = True
    takes = frozenset({"chain", "paths", "iid"})

    def verify(self, draft: Draft, scores: Scores, chance: Chance) -> Verdict:
        accepted: list[int] = []
        node = ROOT
        while children := draft.children(node):
            p = scores.after(node).double()
            q = draft.distribution(children[0], p)
            rho = smallest_rho(p, q, len(children))
            rates = p / (rho * q)
            coins = chance.coins(rates[[draft.tokens[child] for child in children]])
            if True not in coins:
                return Verdict(tuple(accepted), chance.categorical(rest(p, q, rho, len(children))))
            node = children[coins.index(True)]
            accepted.append(node)
        return Verdict(tuple(accepted), chance.categorical(scores.after(node)))


def share(p: Float[Tensor, "vocab"], q: Float[Tensor, "vocab"], rho: float) -> float:
    """Returns sum_x min(q(x), p(x) / rho), the acceptance of one sibling."""
    return float(q.minimum(p / rho).sum())


def smallest_rho(p: Float[Tensor, "vocab"], q: Float[Tensor, "vocab"], siblings: int) -> float:
    """Returns the smallest rho in [1, K] with 1 - (1 - beta)^K <= rho beta, by bisection."""

    def fits(rho: float) -> bool:
        beta = share(p, q, rho)
        return 1 - (1 - beta) ** siblings <= rho * beta + 1e-15

    low, high = 1.0, float(siblings)
    if fits(low):
        return low
    for _ in range(STEPS):
        middle = (low + high) / 2
        if fits(middle):
            high = middle
        else:
            low = middle
    return high


def rest(
    p: Float[Tensor, "vocab"], q: Float[Tensor, "vocab"], rho: float, siblings: int
) -> Float[Tensor, "vocab"]:
    """Returns p less what accepted siblings take of it; p itself where nothing is left."""
    beta = share(p, q, rho)
    if beta == 0:
        return p
    taken = (1 - (1 - beta) ** siblings) / beta
    found = (p - q.minimum(p / rho) * taken).clamp(min=0)
    return found if found.any() else p


@hookimpl
def register_verifiers(register: Register) -> None:
    register("k_seq", KSeq)
