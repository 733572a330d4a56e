"""Selection: which of several independent siblings to test, so that most can be accepted."""

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import final

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

CLASSES = {2: 24, 3: 12}
"""By the number of siblings, the most classes of tokens; the program is solved in about 10 ms."""


@final
@dataclass(frozen=True, slots=True)
class Selection:
    """Which class of siblings to test, given the classes of all siblings.

    chosen: by the classes of the siblings, sorted, the probability that each class is chosen.
    marginal: for each class the probability that it is chosen, over the draws of the siblings.
    """

    chosen: dict[tuple[int, ...], dict[int, float]]
    marginal: tuple[float, ...]


def ratio_classes(
    p: Float[Tensor, "vocab"], q: Float[Tensor, "vocab"], most: int
) -> Int[Tensor, "vocab"]:
    """Returns the class of each token, by its ratio p / q: at most `most` classes, from 0 up.

    Tokens of equal ratio are in one class. If there are too many ratios, neighbours share a class,
    so that the classes have about equal shares of sum min(p, q).
    """
    ratio = p / q  # infinite or NaN where q is 0; such a token is never drawn
    drawn = q > 0
    distinct, member = torch.unique(ratio[drawn], return_inverse=True)
    if len(distinct) > most:
        mass = torch.zeros_like(distinct).index_add_(0, member, p.minimum(q)[drawn])
        middle = (mass.cumsum(0) - mass / 2) / mass.sum()
        member = (middle * most).long().clamp(max=most - 1)[member]
    classes = torch.zeros_like(q, dtype=torch.long)
    classes[drawn] = torch.unique(member, return_inverse=True)[1]
    return classes


@lru_cache(maxsize=4096)
def best_selection(p: tuple[float, ...], q: tuple[float, ...], siblings: int) -> Selection:
    """Returns the selection with the most acceptance: SpecTr's linear program (2310.15141).

    Maximises sum f(T, c) over the classes c of each multiset T of siblings, where f(T, c) is the
    probability that T is drawn and c chosen: sum_c f(T, c) is at most the probability of T, and
    sum_T f(T, c) at most p(c). Where that leaves T without a choice, one of its siblings is chosen
    at random: it makes up for what classes of several ratios lose.

    p, q: the probabilities of the classes under the target and the drafter.
    """
    drawn = {
        group: _probability(group, q)
        for group in itertools.combinations_with_replacement(range(len(q)), siblings)
        if _probability(group, q) > 0
    }
    flow = _largest_flow(p, drawn)
    chosen: dict[tuple[int, ...], dict[int, float]] = {}
    marginal = [0.0] * len(q)
    for group, probability in drawn.items():
        counts = Counter(group)
        rates = {choice: flow.get((group, choice), 0.0) for choice in counts}
        # The solver is exact to about 1e-9 only. The marginal is computed from the rates that are
        # used, so the rule is exact whatever the solver returns.
        rates = {choice: max(0.0, rate) / probability for choice, rate in rates.items()}
        scale = max(1.0, math.fsum(rates.values()))
        rest = max(0.0, 1 - math.fsum(rates.values()) / scale)
        chosen[group] = {
            choice: rate / scale + rest * counts[choice] / siblings
            for choice, rate in rates.items()
        }
        for choice, rate in chosen[group].items():
            marginal[choice] += probability * rate
    return Selection(chosen, tuple(marginal))


def _probability(group: Sequence[int], q: Sequence[float]) -> float:
    """Returns the probability that independent draws from q give this multiset."""
    orders = math.factorial(len(group))
    for count in Counter(group).values():
        orders //= math.factorial(count)
    return orders * math.prod(q[choice] for choice in group)


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
