"""Probabilities of two or three siblings that are drawn without replacement."""

import torch
from jaxtyping import Float, Int
from torch import Tensor


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
