"""What each drafter and draft length is expected to bring, from acceptance and measured costs."""

import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from outrider.contract.policy import Fixed, Policy
from outrider.lab.measuring.measurement import Decoding, Measurement, Step
from outrider.lab.measuring.variants import Variant
from outrider.lab.statistics.intervals import Floats, Statistic, ratio
from outrider.lab.statistics.rates import RATES

ByPrompt = Sequence[Sequence[Measurement]]
"""The measurements of a drafter, by prompt."""


PLAIN = -1
"""Stands for the draft tokens of a round in which none were asked for."""


@final
@dataclass(frozen=True, slots=True)
class Setting:
    """A drafter with a draft length.

    speedup: that over plain decoding, over prompts. tokens: those that a round writes.
    cost: the time of a round, in rounds of plain decoding.
    """

    drafter: str
    gamma: int
    speedup: Statistic
    tokens: float
    cost: float


@final
class InTurn(Policy):
    """Drafts up to gamma tokens, then none, one, two, ..., so that all lengths share one clock."""

    _round = -1

    def reset(self) -> None:
        self._round = -1

    def depth(self, gamma: int) -> int:
        self._round += 1
        return (gamma + self._round) % (gamma + 1)


def has_lengths(variant: Variant) -> bool:
    """Returns whether a draft's overlap with the target tells what shorter ones are worth."""
    drafter = variant.drafter
    along = variant.verifier.lossless and isinstance(variant.policy, Fixed)
    return along and not (drafter.trees or drafter.observes or drafter.asks)


def round_seconds(decoded: ByPrompt, gamma: int, most: int) -> list[float]:
    """Returns the seconds of a round by the most tokens of its draft, from 0 to gamma.

    Each is the mean over the rounds in their turn of what rounds with as many draft tokens take, of
    which the median counts; a round without drafting is one of plain decoding. The longest drafts
    are left out if no text had room for them.

    decoded: with `InTurn`. most: the most tokens of a text.
    """
    seconds, drafts = defaultdict[int, list[float]](list), defaultdict[int, list[int]](list)
    for text in _texts(decoded):
        policy, written = InTurn(), 0
        for step in text.steps:
            limit = policy.depth(gamma)
            if written and limit < most - written:  # the first round also reads the prompt
                drafted = step.drafted if limit else PLAIN
                seconds[drafted].append(_seconds(step, drafting=limit > 0))
                drafts[limit].append(drafted)
            written += len(step.tokens)
    typical = {drafted: statistics.median(found) for drafted, found in seconds.items()}
    means = {it: statistics.fmean(typical[each] for each in drafts[it]) for it in sorted(drafts)}
    found = np.interp(range(max(means, default=0) + 1), [0, *means], [0.0, *means.values()])
    return found.tolist() if means else []


def by_length(
    name: str, overlaps: ByPrompt, decoded: ByPrompt, rounds: Sequence[float], *, reads: bool = True
) -> list[Setting]:
    """Returns a setting for each draft length: Theorem 3.8 (2211.17192) with what was measured.

    A text takes what reading its prompt takes, and its rounds. How many these are is what the
    overlap of the distributions along the target's own text leads to expect at each length.

    rounds: the seconds of a round of plain decoding, then of a round by draft length.
    reads: whether these are of what decoded, so that its reading of the prompts counts too.
    """
    along = [[m.overlap for m in own if m.overlap is not None] for own in overlaps]
    tokens = np.array([sum(it.prefixes[0] for it in own) for own in along])
    if not rounds:  # no text was long enough
        return []
    once, again = (reads * _reading(decoded, rounds, drafting=it) for it in (False, True))
    longest = max((step.drafted for text in _texts(decoded) for step in text.steps), default=0)
    settings = []
    for length in range(1, min(longest, len(rounds) - 1) + 1):
        count = np.array([sum(it.rounds[length - 1] for it in own) for own in along])
        speedup = ratio(once + tokens * rounds[0], again + count * rounds[length])
        efficiency, cost = float(tokens.sum() / count.sum()), rounds[length] / rounds[0]
        settings.append(Setting(name, length, speedup, efficiency, cost))
    return settings


def as_measured(name: str, gamma: int, decoded: ByPrompt) -> Setting:
    """Returns the one setting that was decoded with."""
    speedup, tokens = (RATES[rate].statistic(decoded) for rate in ("speedup", "block_efficiency"))
    efficiency = float(tokens.value)
    return Setting(name, gamma, speedup, efficiency, efficiency / float(speedup.value))


def best_of(settings: Sequence[Setting]) -> list[Setting]:
    """Returns the best setting of each drafter, the best first."""
    ranked = sorted(settings, key=lambda setting: float(setting.speedup.value))
    best = {setting.drafter: setting for setting in ranked}
    return sorted(best.values(), key=ranked.index)[::-1]


def _texts(decoded: ByPrompt) -> list[Decoding]:
    return [m.decoding for own in decoded for m in own if m.decoding is not None]


def _reading(decoded: ByPrompt, rounds: Sequence[float], *, drafting: bool) -> Floats:
    """Returns the seconds that the first rounds of texts take beyond others [prompts]."""
    firsts = [[text.steps[0] for text in _texts([own])] for own in decoded]
    usual = rounds[-1] if drafting else rounds[0]
    return np.array([sum(_seconds(it, drafting=drafting) - usual for it in own) for own in firsts])


def _seconds(step: Step, *, drafting: bool) -> float:
    return step.draft * drafting + step.score + step.verify
