"""Which setting to use, how sure that is, and what would tell it from the next."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from outrider.extras.advise.forecast import Setting
from outrider.lab.runs.row import PLAIN
from outrider.lab.statistics.intervals import Interval, Statistic, interval, prompts_needed, ratio
from outrider.lab.statistics.pairs import Comparison, Pair, tested, with_tested_ends

NEAR = 0.98
"""The share of the best speedup from which on a draft length is as good."""


@final
@dataclass(frozen=True)
class Advice:
    """What to use.

    best: the best setting of each drafter, the best first.
    near: the draft lengths of the first drafter that are about as good.
    over_plain: by setting of `best`, how much its speedup is above 1, tested together.
    lead: how much the first is ahead of the second; None if there is one drafter.
    needed: about how many prompts would tell the two apart; None if that can't be told.
    """

    best: Sequence[Setting]
    near: Sequence[int]
    over_plain: Sequence[Pair]
    lead: Pair | None
    needed: int | None

    @property
    def first(self) -> Setting:
        return self.best[0]

    @property
    def pays(self) -> bool:
        return float(self.first.speedup.value) > 1


def advice_of(settings: Sequence[Setting]) -> Advice:
    """Returns what to use of some settings over the same prompts."""
    ranked = sorted(settings, key=lambda setting: -float(setting.speedup.value))
    best = [*{setting.drafter: setting for setting in reversed(ranked)}.values()][::-1]
    first, others = best[0], best[1:2]
    least = NEAR * float(first.speedup.value)
    near = [it for it in ranked if it.drafter == first.drafter and it.speedup.value >= least]
    speedups = {setting.drafter: setting.speedup for setting in best}
    plain = [
        Comparison("speedup", name, PLAIN, own, ratio(own.columns[:, 1], own.columns[:, 1]))
        for name, own in speedups.items()
    ]
    lead, needed = None, None
    for other in others:
        names = first.drafter, other.drafter
        (lead,) = tested([Comparison("speedup", *names, first.speedup, other.speedup)])
        gap = float(first.speedup.value - other.speedup.value)
        needed = prompts_needed(_gap(first.speedup, other.speedup), max(gap, 1e-6))
    over_plain = with_tested_ends(tested(plain), speedups)
    return Advice(best, sorted(it.gamma for it in near), over_plain, lead, needed)


def expected(setting: Setting) -> Interval:
    """Returns the speedup with the interval of its spread over prompts."""
    found = interval(setting.speedup, "log")
    assert found is not None, "a setting has texts"
    return found


def _gap(one: Statistic, other: Statistic) -> Statistic:
    """Returns how far apart two ratios are, prompt by prompt."""
    columns = np.concatenate([one.columns, other.columns], axis=-1)
    return Statistic(
        columns, one.weights, lambda sums: one.figure(sums[..., :2]) - other.figure(sums[..., 2:])
    )
