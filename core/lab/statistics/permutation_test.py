"""Permutation test of paired differences, and Holm's correction for many tests."""

import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from outrider.lab.statistics.intervals import Floats, Statistic

LEAST_PERMUTATIONS, PER_TEST = 2**14, 200
"""The random permutations: so many for each test of a family, and never fewer than the least."""
ENOUGH_HITS = 1000
"""After so many hits no more exchanges are drawn: p is known to 3% of itself (Besag and Clifford,
"Sequential Monte Carlo p-values", 1991)."""
BLOCK = 2**12
"""The exchanges that are counted at once."""

Exchanges = NDArray[np.uint8]
"""Which prompts are exchanged: 1 or 0 [exchanges, prompts]."""


def permutation_p_values(
    pairs: Sequence[tuple[Statistic, Statistic]], *, tests: int = 1, seed: int = 0
) -> list[float]:
    """Returns two-sided p-values of tests that two figures over the same prompts are equal.

    If they are equal, exchanging the two on any prompt changes nothing (Edgington, "Randomization
    tests", 1980). All 2^n exchanges are counted where these are no more than `permutations_for`
    says, and random ones otherwise. No result is below `smallest_p`.

    tests: how many tests the family has, whose smallest p-values have to be told apart.
    """
    ps = [1.0] * len(pairs)
    for prompts in {len(one.weights) for one, _ in pairs}:
        group = [index for index, (one, _) in enumerate(pairs) if len(one.weights) == prompts]
        counted = _counted(
            [pairs[index] for index in group], prompts, permutations_for(tests), seed
        )
        for index, p in zip(group, counted, strict=True):
            ps[index] = max(p, smallest_p(prompts))
    return ps


def permutations_for(tests: int) -> int:
    """Returns how many random permutations a family of so many tests takes."""
    return max(LEAST_PERMUTATIONS, PER_TEST * tests)


def smallest_p(prompts: int) -> float:
    """Returns the smallest p-value that a number of prompts allows: 2 of 2^n exchanges."""
    return 2.0 ** (1 - prompts)


def prompts_to_reach(level: float, tests: int) -> int:
    """Returns the fewest prompts with which one of so many tests can get below a level by Holm.

    >>> prompts_to_reach(0.05, 1), prompts_to_reach(0.05, 21)
    (6, 10)
    """
    prompts = 1
    while tests * smallest_p(prompts) >= level:
        prompts += 1
    return prompts


def holm(ps: Sequence[float]) -> list[float]:
    """Returns the p-values of several tests, corrected for their number (Holm 1979).

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    adjusted, highest = [0.0] * len(ps), 0.0
    for rank, index in enumerate(sorted(range(len(ps)), key=lambda i: ps[i])):
        highest = max(highest, min(1.0, (len(ps) - rank) * ps[index]))
        adjusted[index] = highest
    return adjusted


def unrejected_ratios(ratio: Statistic, level: float, *, tests: int = 1) -> tuple[float, float]:
    """Returns the ends of the ratios of sums that the test does not reject at a level.

    A ratio is tested as 1 is, with its denominators multiplied by it. Exchanging some prompts leads
    to as large a gap if and only if the ratio lies between that of these prompts and that of the
    others. So 1 lies inside if and only if `permutation_p_values` is not below the level.

    tests: as there. Without data for it, an end is infinite or 0.
    """
    columns = ratio.columns[:, :2]
    lows, highs = list[Floats](), list[Floats]()
    for exchanged in _exchanges(len(columns), permutations_for(tests), seed=0):
        part = exchanged @ columns
        ends = np.stack([ratio.figure(part), ratio.figure(columns.sum(0) - part)])
        all_or_none = np.isnan(ends).any(0)
        lows.append(np.where(all_or_none, 0.0, ends.min(0)))
        highs.append(np.where(all_or_none, np.inf, ends.max(0)))
    ordered = np.sort(np.concatenate(lows)), np.sort(np.concatenate(highs))
    kept = max(1, math.ceil(level * len(ordered[0])))
    return float(ordered[0][kept - 1]), float(ordered[1][-kept])


def _counted(
    pairs: Sequence[tuple[Statistic, Statistic]], prompts: int, most: int, seed: int
) -> list[float]:
    """Returns the share of exchanges that lead to a gap as large as the observed one."""
    figures = [(float(one.value), float(other.value)) for one, other in pairs]
    hits, counts = np.zeros((2, len(pairs)))
    going, all_counted = list(range(len(pairs))), _are_few(prompts, most)
    for exchanged in _exchanges(prompts, most, seed):
        going = [index for index in going if all_counted or hits[index] < ENOUGH_HITS]
        if not going:
            break
        used = {id(statistic): statistic for index in going for statistic in pairs[index]}
        number = {key: index for index, key in enumerate(used)}
        sums = _sums(list(used.values()))
        moved = np.tensordot(sums, exchanged.astype(float), (1, 1))
        kept = sums.sum(1)[..., None] - moved
        for index in going:
            one, other = pairs[index]
            ones, others = number[id(one)], number[id(other)]
            first = one.figure((kept[ones] + moved[others]).T)
            gaps = np.abs(first - other.figure((kept[others] + moved[ones]).T))
            # For rounding: exchanging equal values must not seem to make the gap smaller.
            slack = 1e-9 * max(map(abs, figures[index]))
            least = abs(figures[index][0] - figures[index][1]) - slack
            hits[index] += len(gaps) - np.count_nonzero(gaps < least)  # no figure: a hit
            counts[index] += len(gaps)
    return [float(p) for p in hits / counts]


def _sums(statistics: Sequence[Statistic]) -> Floats:
    """Returns what the statistics sum, filled up with zeros [statistics, prompts, columns]."""
    most = max(statistic.columns.shape[-1] for statistic in statistics)
    sums = np.zeros((len(statistics), len(statistics[0].columns), most))
    for filled, statistic in zip(sums, statistics, strict=True):
        filled[:, : statistic.columns.shape[-1]] = statistic.columns
    return sums


def _are_few(prompts: int, most: int) -> bool:
    """Returns whether all exchanges can be counted.

    Exchanging all prompts gives the same gap, so the last one may stay as it is.
    """
    return prompts <= most.bit_length()


def _exchanges(prompts: int, most: int, seed: int) -> Iterator[Exchanges]:
    """Yields blocks of exchanges: all of them, or random ones and the data as observed."""
    if _are_few(prompts, most):
        numbers = np.arange(2 ** (prompts - 1))[:, None]
        for first in range(0, len(numbers), BLOCK):
            yield ((numbers[first : first + BLOCK] >> np.arange(prompts)) % 2).astype(np.uint8)
        return
    random = np.random.default_rng(seed)
    for first in range(0, most, BLOCK):
        shape = min(BLOCK, most - first), -(-prompts // 8)
        block = np.unpackbits(random.integers(0, 256, shape, np.uint8), axis=1, count=prompts)
        if not first:
            block[0] = 0  # the data as observed are one of the possible outcomes
        yield block
