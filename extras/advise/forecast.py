"""What each drafter and draft length is expected to bring, from acceptance and measured costs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from outrider.extras.advise.costs import later_rounds, round_seconds, seconds
from outrider.lab.measuring.measurement import Decoding, Measurement
from outrider.lab.statistics.intervals import Statistic, ratio
from outrider.lab.statistics.rates import RATES

ByPrompt = Sequence[Sequence[Measurement]]
"""The measurements of a drafter, by prompt."""


@final
@dataclass(frozen=True, slots=True)
class Setting:
    """A drafter with a draft length.

    speedup: that over plain decoding, as expected or as measured, over prompts.
    tokens: the tokens of a round. cost: the time of a round, in rounds of plain decoding.
    """

    drafter: str
    gamma: int
    speedup: Statistic
    tokens: float
    cost: float


@final
@dataclass(frozen=True, slots=True)
class Clock:
    """What decoding takes.

    plain: the measurements of plain decoding. most: the most tokens of a text.
    rounds: by drafter, the seconds of its rounds by draft length, if another engine was measured.
    """

    plain: ByPrompt
    most: int
    rounds: Mapping[str, Sequence[float]]


def decodings(prompts: ByPrompt) -> list[Decoding]:
    return [m.decoding for prompt in prompts for m in prompt if m.decoding is not None]


def as_measured(name: str, gamma: int, prompts: ByPrompt) -> Setting:
    """Returns the setting that was decoded with."""
    speedup, tokens = (RATES[rate].statistic(prompts) for rate in ("speedup", "block_efficiency"))
    efficiency = float(tokens.value)
    return Setting(name, gamma, speedup, efficiency, efficiency / float(speedup.value))


def by_length(name: str, gamma: int, prompts: ByPrompt, clock: Clock) -> list[Setting]:
    """Returns a setting for each draft length, from a drafter's texts with all lengths in turn.

    A text takes what reading its prompt takes, and its rounds. How many these are is what the
    overlap of the distributions along the target's own text leads to expect; for a drafter that has
    none it is what the rounds of that length wrote. This is Theorem 3.8 of Leviathan et al.
    (2211.17192) with measured tokens and times in place of alpha and c.

    prompts: of both protocols.
    """
    texts = decodings(prompts)
    plain = round_seconds(decodings(clock.plain), 0, clock.most)[0]
    rounds = round_seconds(texts, gamma, clock.most)
    read = [_reading(own, rounds) for own in prompts]
    plain_read = [_reading(own, [plain]) for own in clock.plain]
    if name in clock.rounds:  # of another engine, whose reading is not known
        plain, *_ = rounds = [*clock.rounds[name]]
        read = plain_read = [0.0] * len(prompts)
    longest = max((step.drafted for text in texts for step in text.steps), default=0)
    settings = []
    for length in range(1, min(gamma, longest, len(rounds) - 1) + 1):
        counts = [_tokens_and_rounds(own, length, gamma, clock.most) for own in prompts]
        before, after = [], []
        for (tokens, count, share), once, again in zip(counts, plain_read, read, strict=True):
            before.append(once * share + tokens * plain)
            after.append(again * share + count * rounds[length])
        tokens, count, _ = np.sum(counts, axis=0)
        cost = rounds[length] / plain
        settings.append(Setting(name, length, ratio(before, after), tokens / count, cost))
    return settings


def _reading(prompt: Sequence[Measurement], rounds: Sequence[float]) -> float:
    """Returns the seconds that the first rounds of a prompt's texts take beyond later ones."""
    firsts = (text.steps[0] for text in decodings([prompt]))
    return sum(
        max(0.0, seconds(step) - rounds[min(step.drafted, len(rounds) - 1)]) for step in firsts
    )


def _tokens_and_rounds(
    prompt: Sequence[Measurement], length: int, gamma: int, most: int
) -> tuple[float, float, float]:
    """Returns tokens of a prompt's texts, the rounds that write them, and their share of all."""
    overlaps = [m.overlap for m in prompt if m.overlap is not None and m.overlap.rounds[-1]]
    if overlaps:
        tokens = sum(overlap.prefixes[0] for overlap in overlaps)
        return tokens, sum(overlap.rounds[length - 1] for overlap in overlaps), 1.0
    texts = decodings([prompt])
    steps = [
        step for text in texts for turn, step in later_rounds(text, gamma, most) if turn == length
    ]
    tokens = sum(len(step.tokens) for step in steps)
    return tokens, float(len(steps)), tokens / sum(text.counts.emitted for text in texts)
