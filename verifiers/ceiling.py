"""The best acceptance that any lossless rule can reach, and siblings without replacement."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from outrider.contract.devices import wide
from outrider.contract.draft import Draft
from outrider.contract.verifier import Probs


def without(q: Float[Tensor, "n"], tokens: Int[Tensor, "..."]) -> Float[Tensor, "n"]:
    """Returns q without some tokens, not normalised."""
    rest = q.clone()
    rest[tokens] = 0
    return rest


def followers(q: Float[Tensor, "n"]) -> Float[Tensor, "n"]:
    """Returns q(x) / (1 - q(x)) for each x. Times q(y), it is the probability of drawing x, then y.

    For the likeliest x, 1 - q(x) is the sum of the others, since the difference would lose digits.
    """
    heaviest = q.argmax()
    left = 1 - q
    left[heaviest] = without(q, heaviest).sum()
    return torch.where(left > 0, q / left, torch.zeros_like(q))


def pairs_before_a_third(q: Float[Tensor, "n"]) -> Float[Tensor, "n n"]:
    """Returns a table [x, y]. Times q(z), an entry is the probability of drawing x, y, then z."""
    table = followers(q)[:, None] * q
    left = 1 - q[:, None] - q
    if len(q) > 1:
        two = q.topk(2).indices
        left[two[0]] = without(q, two[0]).sum() - q
        left[:, two[0]] = left[two[0]]
        left[two[0], two[1]] = left[two[1], two[0]] = without(q, two).sum()
    table = torch.where(left > 0, table / left, torch.zeros_like(table))
    return table.fill_diagonal_(0.0)


def membership(classes: Int[Tensor, "n"], like: Float[Tensor, "n"]) -> Float[Tensor, "n C"]:
    """Returns a table with 1 for the class of each token; `like` decides the dtype."""
    return torch.nn.functional.one_hot(classes).to(like.dtype)


def joint_classes(
    q: Float[Tensor, "n"], member: Float[Tensor, "n C"], siblings: int
) -> Float[Tensor, "n ..."]:
    """Returns the joint probability of each token and the classes of its siblings.

    Shaped [n, C] for two siblings and [n, C, C] for three: the probability that x is drawn, and
    that the others, in the order of their draws, are of these classes.

    member: as `membership` returns it. The two likeliest tokens must be alone in their classes.
    """
    of_class = q @ member
    # Without x itself, where x is of the class.
    others = (of_class - member * q[:, None]).clamp(min=0)
    if siblings == 2:
        g = followers(q)
        return g[:, None] * others + q[:, None] * (g @ member - member * g[:, None]).clamp(min=0)
    table = pairs_before_a_third(q)
    after, before = table @ member, table.T @ member
    # x comes first or second: the other of the first two is of class b, the third of class c.
    joint = (after + before)[:, :, None] * others[:, None, :]
    joint.diagonal(dim1=1, dim2=2).sub_((table * q + table.T * q) @ member)
    # x comes third.
    of_pairs = (member.T @ after)[None].expand(len(q), -1, -1).clone()
    of_pairs -= member[:, :, None] * after[:, None, :] + member[:, None, :] * before[:, :, None]
    return (joint + q[:, None, None] * of_pairs.clamp(min=0)).clamp(min=0)


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
