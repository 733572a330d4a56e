"""Drafters compared two by two on the same prompts, a Holm family for each rate."""

import itertools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, final

from outrider.base.errors import nearest, require
from outrider.lab.statistics.intervals import Interval, Statistic, difference
from outrider.lab.statistics.permutation_test import (
    holm,
    permutation_p_values,
    prompts_to_reach,
    unrejected_ratios,
)

LEVEL = 0.05
"""Below this p-value, after Holm's correction, a difference counts as more than chance."""

CONTROLS = {"none": "outrider.drafters.none.NoDraft", "random": "outrider.drafters.random.Random"}
"""Baselines, by name: they are measured beside the others, and not compared in pairs."""

Configs = Mapping[str, Mapping[str, Any]]
"""By variant, the configs of the drafter, the rule and the policy, as in `Run.facts`."""


@final
@dataclass(frozen=True, slots=True)
class Pair:
    """The difference between two drafters in a rate, on the same prompts.

    difference: `one` minus `other`. Its interval is of this difference alone, as `p` is; that of a
        speedup over plain decoding has the values that its corrected test does not reject.
    p: p-value of the two being equal (see `permutation_p_values`).
    p_holm: the same, corrected for all tests of the family.
    prompts: how many there are.
    family: how many tests were corrected for: those of the same rate.
    task: the task whose prompts were counted; empty for all prompts.
    """

    rate: str
    one: str
    other: str
    difference: Interval
    p: float
    p_holm: float
    prompts: int
    family: int
    task: str = ""

    @property
    def significant(self) -> bool:
        """Returns whether the difference is more than chance."""
        return self.p_holm < LEVEL

    @property
    def reachable(self) -> bool:
        """Returns whether so many prompts can show any difference of the family."""
        return self.prompts >= prompts_to_reach(LEVEL, self.family)

    @property
    def opposite(self) -> "Pair":
        return replace(self, one=self.other, other=self.one, difference=self.difference.opposite)


@final
@dataclass(frozen=True, slots=True)
class Comparison:
    """A test to make: the same rate of two drafters, over the same prompts, maybe of one task."""

    rate: str
    one: str
    other: str
    statistic: Statistic
    other_statistic: Statistic
    task: str = ""


def tested(comparisons: Sequence[Comparison]) -> list[Pair]:
    """Returns the outcomes of the comparisons that have data, corrected within each rate."""
    pairs = []
    for rate in dict.fromkeys(test.rate for test in comparisons):
        family = [
            (test, gap)
            for test in comparisons
            if test.rate == rate
            and (gap := difference(test.statistic, test.other_statistic)) is not None
        ]
        statistics = [(test.statistic, test.other_statistic) for test, _ in family]
        ps = permutation_p_values(statistics, tests=len(family))
        pairs += [
            Pair(
                *(rate, test.one, test.other, gap, p, p_holm),
                prompts=len(test.statistic.weights),
                family=len(family),
                task=test.task,
            )
            for (test, gap), p, p_holm in zip(family, ps, holm(ps), strict=True)
        ]
    return pairs


def with_tested_ends(pairs: Sequence[Pair], speedups: Mapping[str, Statistic]) -> list[Pair]:
    """Returns differences of speedups from 1 with the intervals of their tests, corrected by Holm.

    speedups: by the pair's first drafter.
    """
    ranks = sorted(pairs, key=lambda pair: pair.p)
    rejected, found = sum(pair.significant for pair in pairs), []
    for pair in pairs:
        level = LEVEL / (len(pairs) - min(ranks.index(pair), rejected))
        low, high = unrejected_ratios(speedups[pair.one], level, tests=len(pairs))
        known = 0 < low <= high < math.inf
        ends = (low - 1, high - 1) if known else (None, None)
        found.append(replace(pair, difference=Interval(pair.difference.value, *ends)))
    return found


def comparable(
    names: Sequence[str], configs: Configs, reference: str | None = None
) -> list[tuple[str, str]]:
    """Returns the pairs of variants to compare.

    Two drafters are compared under the same rule, policy and lengths, and also if one of them has
    its own, and no other variant runs it. If there is only one drafter, each
    of its rules and policies is compared with the first. The drafters `none` and `random` are left
    out.

    reference: a variant, or the drafter of several, that is compared with the others; the others
        are not compared with each other. Defaults to all pairs.
    """
    parts = {
        name: _parts(name, configs[name]) for name in names if not is_control(name, configs[name])
    }
    if reference is not None:
        chosen = [name for name in parts if reference in (name, drafter_in(name))]
        others = [name for name in parts if name not in chosen]
        return [
            (one, other)
            for one, other in itertools.product(chosen, others)
            if len(chosen) == 1 or parts[one][1] == parts[other][1]
        ]
    drafters = [drafter for drafter, _ in parts.values()]
    if len(set(drafters)) == 1:
        first, *others = parts
        return [(other, first) for other in others]
    return [
        (one, other)
        for one, other in itertools.combinations(parts, 2)
        if parts[one][0] != parts[other][0]
        and (
            parts[one][1] == parts[other][1]
            or any(drafters.count(parts[name][0]) == 1 for name in (one, other))
        )
    ]


def check_reference(reference: object, configs: Configs) -> None:
    """Raises `ConfigError` unless the reference is None or a variant that can be compared."""
    names = [name for name, config in configs.items() if not is_control(name, config)]
    known = dict.fromkeys([*names, *map(drafter_in, names)])
    valid = reference is None or reference in known
    require(valid, "reference", reference, f"a drafter; {nearest(str(reference), known)}")


def drafter_in(name: str) -> str:
    """Returns the drafter that the name of a variant begins with.

    >>> drafter_in("eagle/block"), drafter_in("eagle (gamma 8)"), drafter_in("eagle")
    ('eagle', 'eagle', 'eagle')
    """
    return name.partition("/")[0].partition(" (")[0]


def is_control(name: str, config: Mapping[str, Any]) -> bool:
    """Returns whether a variant's drafter is `none` or `random`, by its config if it has one."""
    drafter = config.get("drafter")
    if drafter is None:
        return name in CONTROLS
    return drafter.get("_target_") in CONTROLS.values()


def _parts(name: str, config: Mapping[str, Any]) -> tuple[str, str]:
    """Returns a variant's drafter, and all that it runs with, each as a string to compare."""
    rest = json.dumps([config.get(name) for name in ("verifier", "policy", "gamma", "budget")])
    return json.dumps(config.get("drafter", name)), rest
