"""The best acceptance that any lossless rule can reach at a node of a draft."""

import torch
from jaxtyping import Float
from torch import Tensor

from outrider.contract.devices import wide
from outrider.contract.draft import Draft
from outrider.contract.verifier import Probs
from outrider.verifiers.distinct import followers, pairs_before_a_third, without

MOST_OF_THREE = 2048
"""The most tokens of nonzero probability for which all pairs of distinct siblings are summed."""


def acceptance_ceiling(draft: Draft, node: int, p: Probs, kind: str) -> float | None:
    """Returns the largest probability with which a child of `node` can be accepted.

    That is the value of the optimal transport between the siblings and p: the sum of
    min(p(x), q(x)) for one sibling (2211.17192, Corollary 3.6), and for K siblings
    1 + min over sets H of p(H) - P(all K lie in H) (SpecTr, 2310.15141; the dual is of 2502.18779).
    The probability includes the drawing of the siblings; chosen siblings are fixed.

    None if the node has no child, or if there is no fast way to compute it: for four distinct
    siblings or more, and for three of more than `MOST_OF_THREE` tokens.

    p: the target's distribution after `node`.
    kind: how siblings are chosen; see `outrider.contract.draft.KINDS`.
    """
    children = draft.children(node)
    if not children:
        return None
    distributions = [draft.probs[child] for child in children]
    if all(probs is None for probs in distributions):
        return float(p[sorted({draft.tokens[child] for child in children})].sum())
    if any(probs is None for probs in distributions):
        return None
    p = p.cpu().double()
    q = wide(draft.distribution(children[0], p))
    if len(children) == 1:
        return float(p.minimum(q).sum())
    # The best H holds the tokens with the lowest p / q: only these sets need to be tried. Tokens
    # that are never drawn can be left out.
    drawn = q > 0
    p, q = p[drawn], q[drawn]
    order = (p / q).argsort()
    p, q = p[order], q[order]
    inside = all_in_prefix(q, len(children), kind)
    if inside is None:
        return None
    return 1 + min(0.0, float((p.cumsum(0) - inside).min()))


def all_in_prefix(q: Float[Tensor, "n"], siblings: int, kind: str) -> Float[Tensor, "n"] | None:
    """Returns for each n the probability that all siblings lie among the first n tokens of q.

    None if there is no fast way to compute it.
    """
    mass = q.cumsum(0)
    if kind != "distinct":
        return mass**siblings
    # Sums of what each token adds, since a difference of sums would lose digits.
    if siblings == 2:
        # Sum over x != y of q(x) q(y) / (1 - q(x)).
        first = followers(q)
        return (q * _before(first.cumsum(0)) + first * _before(mass)).cumsum(0)
    if siblings > 3 or len(q) > MOST_OF_THREE:
        return None
    # Sum over different x, y, z of q(x) q(y) / (1 - q(x)) q(z) / (1 - q(x) - q(y)).
    pairs = pairs_before_a_third(q)
    others = _before(mass) - q[:, None]  # row x, column n: of the tokens before n, without x
    likeliest = q.argmax()
    others[likeliest] = _before(without(q, likeliest).cumsum(0))
    as_third = q * _before(pairs.cumsum(0).cumsum(1).diagonal())
    return (as_third + ((pairs + pairs.T) * others).triu(1).sum(0)).cumsum(0)


def _before(sums: Float[Tensor, "n"]) -> Float[Tensor, "n"]:
    """Returns for each n the value before it."""
    return torch.nn.functional.pad(sums, (1, 0))[:-1]
