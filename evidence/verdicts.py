"""How often verdicts are wrong, and how often they find what is there, in simulated experiments.

python evidence/verdicts.py --experiments 2000

One drafter is faster than the others by an effect, and the others are equal. A finding is false if
it tells equal drafters apart, or calls the slower one faster. It fails if that happens in more than
5% of the experiments, as far as their number can tell.
"""

import argparse
import itertools
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from outrider.lab.statistics.intervals import Floats, Statistic, ratio
from outrider.lab.statistics.pairs import LEVEL
from outrider.lab.statistics.permutation_test import holm, permutation_p_values

DRAFTERS, PROMPTS, EFFECTS = (2, 6, 12, 24), (8, 24, 80, 240), (0.0, 0.05, 0.2, 0.5)


@final
@dataclass(frozen=True)
class Share:
    """The shares of experiments with a false finding, and in which the first beats all others.

    power: the mean share of the others that the first is found to be faster than.
    """

    false: float
    fastest: float
    power: float


def speedups(
    random: np.random.Generator, drafters: int, prompts: int, effects: Sequence[float]
) -> tuple[list[Statistic], list[Statistic]]:
    """Returns the speedups of the first drafter, which is better by each effect, and the others'.

    Speedups are near 1.4. They differ between prompts, and between drafters on each prompt, about
    as those of the demo do; texts have 16 to 64 tokens.
    """
    seconds: Floats = random.integers(16, 65, prompts) * random.uniform(0.9, 1.1, prompts)
    of_prompt = random.normal(0, 0.2, prompts)
    first, *others = np.exp(of_prompt + random.normal(0, 0.2, (drafters, prompts)))
    firsts = [ratio(seconds, seconds / ((1.4 + effect) * first)) for effect in effects]
    return firsts, [ratio(seconds, seconds / (1.4 * other)) for other in others]


def outcome(
    pairs: Sequence[tuple[int, int]],
    leads: Sequence[float],
    ps: Sequence[float],
    drafters: int,
    effect: float,
) -> tuple[bool, bool, float]:
    """Returns whether something false was found, whether the first beat all, and how many it did.

    pairs: the drafters compared. leads: of the first of each over the second. ps: by Holm.
    """
    found = [(pair, lead) for pair, lead, p in zip(pairs, leads, ps, strict=True) if p < LEVEL]
    right = sum(effect > 0 and pair[0] == 0 and lead > 0 for pair, lead in found)
    return right < len(found), right == drafters - 1, right / (drafters - 1)


def experiments(
    drafters: int, prompts: int, effects: Sequence[float], count: int
) -> dict[tuple[float, str], Share]:
    """Returns the shares of many experiments, for each effect and kind of family.

    The other drafters are the same for every effect, so they are compared once.
    """
    random = np.random.default_rng([drafters, prompts])
    others = list(itertools.combinations(range(1, drafters), 2))
    own = [(0, other) for other in range(1, drafters)]
    everyone = own + others
    outcomes: dict[tuple[float, str], list[tuple[bool, bool, float]]] = {}
    for number in range(count):
        firsts, rest = speedups(random, drafters, prompts, effects)
        tests = [(first, rest[other - 1]) for first in firsts for _, other in own]
        tests += [(rest[one - 1], rest[other - 1]) for one, other in others]
        ps = permutation_p_values(tests, tests=len(everyone), seed=number)
        for place, effect in enumerate(effects):
            mine = ps[place * len(own) :][: len(own)] + ps[len(effects) * len(own) :]
            families = {
                "all pairs": (range(len(mine)), holm(mine)),
                "reference": (range(len(own)), holm(mine[: len(own)])),
            }
            values = [float(rate.value) for rate in (firsts[place], *rest)]
            for name, (chosen, corrected) in families.items():
                pairs = [everyone[index] for index in chosen]
                leads = [values[one] - values[other] for one, other in pairs]
                outcomes.setdefault((effect, name), []).append(
                    outcome(pairs, leads, corrected, drafters, effect)
                )
    return {
        key: Share(*(float(np.mean(column)) for column in zip(*each, strict=True)))
        for key, each in outcomes.items()
    }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--experiments", type=int, default=2000)
    parser.add_argument("--drafters", type=int, nargs="+", default=DRAFTERS)
    parser.add_argument("--prompts", type=int, nargs="+", default=PROMPTS)
    parser.add_argument("--effects", type=float, nargs="+", default=EFFECTS)
    options = parser.parse_args(arguments)
    # Three standard errors of a share of 5%.
    most = LEVEL + 3 * (LEVEL * (1 - LEVEL) / options.experiments) ** 0.5
    wrong = 0
    print(
        "| drafters | prompts | effect | family | false findings | power | the fastest is found |"
    )
    print("|---|---|---|---|---|---|---|")
    for drafters, prompts in itertools.product(options.drafters, options.prompts):
        shares = experiments(drafters, prompts, options.effects, options.experiments)
        for (effect, name), share in shares.items():
            wrong += share.false > most
            found = f"{share.power:.3f} | {share.fastest:.3f}" if effect else "- | -"
            print(f"| {drafters} | {prompts} | {effect:g} | {name} | {share.false:.3f} | {found} |")
        sys.stdout.flush()
    if wrong:
        sys.exit(f"{wrong} families have false findings in more than {most:.3f} of the experiments")


if __name__ == "__main__":
    main()
