"""How often a 95% interval contains the true value, in 2000 simulated experiments.

python evidence/coverage.py

Prints the table of docs/evidence/statistics.md. Fails if an interval contains it less often than
--least.
"""

import argparse
import sys
from collections.abc import Callable, Sequence

import numpy as np

from outrider.lab.statistics.intervals import Floats, ends, ratio

PROMPTS = (6, 12, 24, 100)
SHIFT = 0.9
"""The second drafter of a comparison is accepted this many times as often."""

Draw = Callable[[np.random.Generator, int, int], tuple[Floats, Floats]]
"""Returns each prompt's acceptance and number of tested tokens [experiments, prompts]."""


def uniform(random: np.random.Generator, experiments: int, prompts: int) -> tuple[Floats, Floats]:
    """Prompts of similar length and similar acceptance, around .6."""
    shape = experiments, prompts
    return random.beta(6, 4, shape), random.integers(40, 200, shape).astype(float)


def capped(random: np.random.Generator, experiments: int, prompts: int) -> tuple[Floats, Floats]:
    """Texts that end by themselves, and at 128 tokens at the latest."""
    shape = experiments, prompts
    return random.beta(3, 3, shape), np.minimum(random.geometric(1 / 80, shape), 128).astype(float)


def lognormal(random: np.random.Generator, experiments: int, prompts: int) -> tuple[Floats, Floats]:
    """A few texts are many times as long as the others."""
    shape = experiments, prompts
    return random.beta(2, 2, shape), np.ceil(random.lognormal(4, 1, shape))


def correlated(
    random: np.random.Generator, experiments: int, prompts: int
) -> tuple[Floats, Floats]:
    """Long texts are easier to draft."""
    rates = random.beta(2, 3, (experiments, prompts))
    return rates, np.ceil(random.lognormal(3.5 + 1.5 * rates, 0.6))


def bimodal(random: np.random.Generator, experiments: int, prompts: int) -> tuple[Floats, Floats]:
    """Copying is all or nothing: half of the prompts are near 0, the others near 1."""
    shape = experiments, prompts
    easy, hard = random.beta(15, 1, shape), random.beta(1, 15, shape)
    lengths = random.integers(40, 200, shape).astype(float)
    return np.where(random.random(shape) < 0.5, easy, hard), lengths


def gaining(random: np.random.Generator, experiments: int, prompts: int) -> tuple[Floats, Floats]:
    """Returns the seconds of plain decoding and those of a drafter, which gains on long texts."""
    plain = random.lognormal(4, 0.8, (experiments, prompts))
    return plain, plain**0.6


def covered_speedup(prompts: int, experiments: int) -> float:
    """Returns how often the interval of such a speedup contains its value."""
    random = np.random.default_rng(prompts)
    plain, own = gaining(random, 1, 1_000_000)
    truth = float(plain.sum() / own.sum())
    speedup = ratio(*gaining(random, experiments, prompts))
    low, high = ends(speedup.value, speedup.left_out, speedup.effective, "log")
    return float(((low <= truth) & (truth <= high)).mean())


SCENARIOS: dict[str, Draw] = {
    draw.__name__: draw for draw in (uniform, capped, lognormal, correlated, bimodal)
}


def covered(draw: Draw, prompts: int, experiments: int) -> tuple[float, float, float]:
    """Returns how often the intervals of a rate, a difference and a quotient contain its value."""
    random = np.random.default_rng(prompts)
    rates, lengths = draw(random, 1, 1_000_000)
    truth = float((rates * lengths).sum() / lengths.sum())
    rates, lengths = draw(random, experiments, prompts)
    one, other = (
        ratio(random.binomial(lengths.astype(int), share).astype(float), lengths)
        for share in (rates, rates * SHIFT)
    )
    effective = np.minimum(one.effective, other.effective)
    with np.errstate(divide="ignore", invalid="ignore"):
        quotients = one.value / other.value, one.left_out / other.left_out
    intervals = (
        (truth, ends(one.value, one.left_out, one.effective, "logit")),
        (
            truth * (1 - SHIFT),
            ends(one.value - other.value, one.left_out - other.left_out, effective, "linear"),
        ),
        (1 / SHIFT, ends(*quotients, effective, "log")),
    )
    rate, gap, times = (
        float(((low <= value) & (value <= high)).mean()) for value, (low, high) in intervals
    )
    return rate, gap, times


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the tables, and returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--experiments", type=int, default=2000)
    parser.add_argument("--least", type=float, default=0.92, help="the smallest share to allow")
    options = parser.parse_args(arguments)
    shares = {
        name: [covered(draw, prompts, options.experiments) for prompts in PROMPTS]
        for name, draw in SCENARIOS.items()
    }
    for index, figure in enumerate(("rate", "difference", "quotient")):
        print(f"| {figure} | {' | '.join(f'{prompts} prompts' for prompts in PROMPTS)} |")
        print("|---" * (len(PROMPTS) + 1) + "|")
        for name, by_prompts in shares.items():
            print(f"| {name} | {' | '.join(f'{share[index]:.3f}' for share in by_prompts)} |")
        print()
    speedups = [covered_speedup(prompts, options.experiments) for prompts in PROMPTS]
    print(f"| gaining | {' | '.join(f'{share:.3f}' for share in speedups)} |")
    lowest = min(
        share for by_prompts in shares.values() for share in [*sum(by_prompts, ()), *speedups]
    )
    return int(lowest < options.least)


if __name__ == "__main__":
    sys.exit(main())
