"""Which of two or three siblings to test, so that most can be accepted."""

import itertools
import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

CLASSES = {2: 24, 3: 12}
"""The most classes of tokens, by the number of siblings; solving the program takes about 10 ms."""


def ratio_classes(p: Float[Tensor, "n"], q: Float[Tensor, "n"], most: int) -> Int[Tensor, "n"]:
    """Returns the class of each token, by its ratio p / q: at most `most` classes, from 0 up.

    Tokens of equal ratio are in one class. If there are too many ratios, neighbours share a class,
    so that the classes have about equal shares of sum min(p, q).

    q: above zero for each token.
    """
    distinct: Tensor
    member: Tensor
    distinct, member = torch.unique(p / q, return_inverse=True)
    if len(distinct) <= most:
        return member
    mass = torch.zeros_like(distinct).index_add_(0, member, p.minimum(q))
    middle = (mass.cumsum(0) - mass / 2) / mass.sum()
    return _renumbered((middle * most).long().clamp(max=most - 1)[member])


def classes_apart(p: Float[Tensor, "n"], q: Float[Tensor, "n"], most: int) -> Int[Tensor, "n"]:
    """Returns the class of each token of q, for siblings without replacement.

    Tokens of equal ratio may differ here, since the others that are left depend on the token. Each
    token is alone in its class if there are enough classes; the two likeliest always are.
    """
    if len(q) <= most:
        return (p / q).argsort().argsort()
    classes = ratio_classes(p, q, most - 2)
    likeliest = q.topk(2).indices
    classes[likeliest] = classes.max() + torch.tensor([1, 2], device=q.device)
    return _renumbered(classes)


def _renumbered(classes: Int[Tensor, "n"]) -> Int[Tensor, "n"]:
    numbers: Tensor = torch.unique(classes, return_inverse=True)[1]
    return numbers


@lru_cache(maxsize=4096)
def best_selection(
    p: tuple[float, ...], drawn: tuple[float, ...], siblings: int
) -> Float[Tensor, "classes ..."]:
    """Returns the selection with the most acceptance: SpecTr's linear program (2310.15141).

    Maximises sum f(T, c) over the classes c of each multiset T of siblings, where f(T, c) is the
    probability that T is drawn and c chosen: sum_c f(T, c) is at most the probability of T, and
    sum_T f(T, c) at most p(c). Where that leaves T without a choice, one of its siblings is chosen
    at random, which makes up for some of the loss from classes of several tokens.

    The result [C, C] or [C, C, C] is the probability that a sibling is chosen, by its class and the
    classes of the others in any order.

    p: the target's probabilities of the C classes.
    drawn: the expected number of siblings of a class whose others have these classes, in the order
        of their draws; in the shape of the result, flattened.
    """
    shape = (len(p),) * siblings
    expected = torch.tensor(drawn, dtype=torch.float64).reshape(shape)
    groups: dict[tuple[int, ...], float] = {}
    for group in itertools.combinations_with_replacement(range(len(p)), siblings):
        orders = {(group[0], *others) for others in itertools.permutations(group[1:])}
        probability = sum(float(expected[order]) for order in orders) / group.count(group[0])
        if probability > 0:
            groups[group] = probability
    flow = _largest_flow(p, groups)
    rates = torch.full(shape, 1 / siblings, dtype=torch.float64)
    for group, probability in groups.items():
        # The solver is exact only to about 1e-9. But the distribution of the selected sibling
        # follows from these rates, so the rule is exact whatever the solver returns.
        shares = {c: max(0.0, flow.get((group, c), 0.0)) / probability for c in group}
        scale = max(1.0, math.fsum(shares.values()))
        rest = max(0.0, 1 - math.fsum(shares.values()) / scale)
        for order in itertools.permutations(group):
            rates[order] = shares[order[0]] / scale / group.count(order[0]) + rest / siblings
    return rates


def _largest_flow(
    p: Sequence[float], drawn: dict[tuple[int, ...], float]
) -> dict[tuple[tuple[int, ...], int], float]:
    """Returns the f(T, c) of `best_selection`, for the pairs where they may be above zero."""
    from scipy.optimize import linprog  # takes long to import
    from scipy.sparse import coo_array

    pairs = [(group, choice) for group in drawn for choice in sorted(set(group))]
    row = {group: number for number, group in enumerate(drawn)}
    rows = [row[group] for group, _ in pairs] + [len(drawn) + choice for _, choice in pairs]
    columns = [*range(len(pairs))] * 2
    table = coo_array(
        (np.ones(len(rows)), (rows, columns)), shape=(len(drawn) + len(p), len(pairs))
    )
    limits = [*drawn.values(), *p]
    solution = linprog(-np.ones(len(pairs)), A_ub=table.tocsr(), b_ub=limits, method="highs")
    return dict(zip(pairs, solution.x.tolist(), strict=True))
