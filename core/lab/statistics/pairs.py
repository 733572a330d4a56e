"""Pairs: drafters compared two by two on the same prompts, all comparisons as one Holm family."""

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

from outrider.lab.statistics.intervals import Interval, Statistic, difference
from outrider.lab.statistics.permutation_test import exchange_p, holm

CONTROLS = {"none": "outrider.drafters.none.NoDraft", "random": "outrider.drafters.random.Random"}
"""Baselines, by name: they are measured beside the others, and not compared in pairs."""


@final
@dataclass(frozen=True, slots=True)
class Pair:
    """The difference between two drafters in a rate, on the same prompts.

    difference: `one` minus `other`.
    p: p-value of the two being equal (see `exchange_p`).
    p_holm: the same, corrected for all pairs in all rates together.
    prompts: how many there are.
    """

    rate: str
    one: str
    other: str
    difference: Interval
    p: float
    p_holm: float
    prompts: int


@final
@dataclass(frozen=True, slots=True)
class Comparison:
    """A test to make: the same rate of two drafters, over the same prompts."""

    rate: str
    one: str
    other: str
    statistic: Statistic
    other_statistic: Statistic


def tested(comparisons: Sequence[Comparison]) -> list[Pair]:
    """Returns the outcomes of the comparisons that have data, with p-values corrected for all."""
    outcomes = []
    for test in comparisons:
        gap = difference(test.statistic, test.other_statistic)
        if gap is not None:
            outcomes.append((test, gap, exchange_p(test.statistic, test.other_statistic)))
    corrected = holm([p for *_, p in outcomes])
    return [
        Pair(test.rate, test.one, test.other, gap, p, p_holm, len(test.statistic.weights))
        for (test, gap, p), p_holm in zip(outcomes, corrected, strict=True)
    ]


def comparable(
    names: Sequence[str], configs: Mapping[str, Mapping[str, Any]]
) -> list[tuple[str, str]]:
    """Returns the pairs of entrants to compare.

    Two drafters are compared under the same rule and policy. If there is only one drafter, each of
    its rules and policies is compared with the first. The drafters `none` and `random` are left
    out.

    configs: by name, the configs of the drafter, the rule and the policy, as in `Run.facts`.
    """
    parts = {
        name: _parts(name, configs[name]) for name in names if not is_control(name, configs[name])
    }
    if len({drafter for drafter, _ in parts.values()}) == 1:
        first, *others = parts
        return [(other, first) for other in others]
    return [
        (one, other)
        for one, other in itertools.combinations(parts, 2)
        if parts[one][0] != parts[other][0] and parts[one][1] == parts[other][1]
    ]


def is_control(name: str, config: Mapping[str, Any]) -> bool:
    """Returns whether an entrant's drafter is `none` or `random`, by its config if it has one."""
    drafter = config.get("drafter")
    if drafter is None:
        return name in CONTROLS
    return drafter.get("_target_") in CONTROLS.values()


def _parts(name: str, config: Mapping[str, Any]) -> tuple[str, str]:
    """Returns an entrant's drafter, and its rule with its policy, each as a string to compare."""
    rest = json.dumps([config.get("verifier"), config.get("policy")])
    return json.dumps(config.get("drafter", name)), rest
