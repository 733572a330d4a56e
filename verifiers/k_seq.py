"""SpecTr's rule, which tests every sibling in the same way."""

from bisect import bisect_right
from typing import ClassVar, final

from outrider.contract.chance import Chance
from outrider.contract.devices import wide
from outrider.contract.draft import ROOT, Draft, Verdict
from outrider.contract.verifier import Probs, Scores, Verifier, VerifierExample
from outrider.verifiers.token import token_rates
from outrider.verifiers.towards import STEPS


@final
class KSeq(Verifier):
    """K-SEQ (SpecTr, 2310.15141, Algorithm 3).

    Tests K i.i.d. siblings in turn, and accepts each with probability min(1, p(x) / (rho q(x))).
    rho is the smallest number in [1, K] for which no token becomes too likely. If no sibling is
    accepted, the token is drawn from the residual of p.

    Lossless. Accepts at least (1 - 1/e) times as often as the best possible rule for K drafts
    (their Theorem 2). With one sibling it is the token rule.
    """

    lossless = True
    takes: frozenset[str] = frozenset({"chain", "paths", "iid"})
    examples: ClassVar[tuple[VerifierExample, ...]] = (
        VerifierExample(p=(0.25, 0.75), q=(0.75, 0.25), siblings=2, accepted=0.6482676),
    )

    def verify(self, draft: Draft, scores: Scores, chance: Chance) -> Verdict:
        accepted: list[int] = []
        node = ROOT
        while children := draft.children(node):
            p = wide(scores.after(node))
            q = draft.distribution(children[0], p)
            rho = smallest_rho(p, q, len(children))
            rates = p / (rho * q)
            coins = chance.coins(rates[[draft.tokens[child] for child in children]])
            if True not in coins:
                return Verdict(
                    tuple(accepted), chance.categorical(k_residual(p, q, rho, len(children)))
                )
            node = children[coins.index(True)]
            accepted.append(node)
        return Verdict(tuple(accepted), chance.categorical(scores.after(node)))

    def accepts(self, q: Probs, scores: Scores, node: int) -> Probs:
        return token_rates(q, scores, node)


def smallest_rho(p: Probs, q: Probs, siblings: int) -> float:
    """Returns the smallest rho in [1, K] with 1 - (1 - beta)^K <= rho beta, by bisection.

    beta = sum_x min(q(x), p(x) / rho) is the probability that one sibling is accepted.
    """

    def fits(rho: float, beta: float) -> bool:
        return 1 - (1 - beta) ** siblings <= rho * beta + 1e-15

    low, high = 1.0, float(siblings)
    if fits(low, float(q.minimum(p / low).sum())):
        return low
    # Sorted by p / q, the tokens with the smaller part in p come first: beta is two running sums.
    ratios, order = (p / q).nan_to_num(nan=0.0).sort()
    limits, of_p = ratios.tolist(), [0.0, *p[order].cumsum(-1).tolist()]
    of_q = [*q[order].flip(-1).cumsum(-1).flip(-1).tolist(), 0.0]
    for _ in range(STEPS):
        middle = (low + high) / 2
        smaller = bisect_right(limits, middle)
        if fits(middle, of_p[smaller] / middle + of_q[smaller]):
            high = middle
        else:
            low = middle
    return high


def k_residual(p: Probs, q: Probs, rho: float, siblings: int) -> Probs:
    """Returns p minus the probability that accepted siblings cover, not normalised.

    Returns p itself if nothing remains.
    """
    beta = float(q.minimum(p / rho).sum())
    if beta == 0:
        return p
    covered = (1 - (1 - beta) ** siblings) / beta
    residual = (p - q.minimum(p / rho) * covered).clamp(min=0)
    return residual if residual.any() else p
