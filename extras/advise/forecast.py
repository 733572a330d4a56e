"""What each drafter and draft length is expected to bring, and what to advise of that."""

import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from outrider.contract.policy import Fixed, Policy
from outrider.lab.measuring.measurement import Decoding, Measurement, Step
from outrider.lab.measuring.variants import Variant
from outrider.lab.runs.row import PLAIN
from outrider.lab.statistics.intervals import (
    Floats,
    Interval,
    Statistic,
    interval,
    prompts_needed,
    ratio,
)
from outrider.lab.statistics.pairs import LEVEL, Comparison, tested
from outrider.lab.statistics.rates import RATES
from outrider.lab.tables.table import Cell, Column, Figure, Table, names_of

ByPrompt = Sequence[Sequence[Measurement]]
"""The measurements of a drafter, by prompt."""


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
                drafted = step.drafted if limit else -1  # as in plain decoding
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


NAMES = ("drafter", "gamma", "tokens", "cost", "expected", "measured")
HEADINGS = ("gamma", "tokens\na round", "time of\na round", "expected\nspeedup", "measured")


def table_of(
    title: str, best: Sequence[Setting], measured: Mapping[str, Interval | None]
) -> tuple[Table, list[dict[str, Any]]]:
    """Returns what is expected of each drafter and what was measured, also for JSON.

    measured: by drafter, its speedup on other prompts.
    """
    lines, rows = list[tuple[Cell, ...]](), list[dict[str, Any]]()
    for it in best:
        speedups = interval(it.speedup, "log"), measured.get(it.drafter)
        values = it.drafter, it.gamma, it.tokens, it.cost, *speedups
        figures = (each and Figure(each, 2) for each in speedups)
        lines.append((it.drafter, str(it.gamma), f"{it.tokens:.2f}", f"{it.cost:.2f}", *figures))
        rows.append(dict(zip(NAMES, values, strict=True)))
    columns = [Column(heading, beside=True) for heading in HEADINGS]
    return Table(title, (*names_of("drafter"), *columns), tuple(lines)), rows


def advice(best: Sequence[Setting]) -> list[str]:
    """Returns what to do, why, how sure that is, and what would tell the first two apart."""
    first = best[0]
    name, speed = f"{first.drafter}, gamma {first.gamma}", float(first.speedup.value)
    cost = f"a round takes {first.cost:.2f} times as long as plain decoding's"
    why = f"{speed:.2f}x is expected, since {cost} and writes {first.tokens:.2f} tokens"
    plain = [ratio(*[it.speedup.columns[:, 1]] * 2) for it in best]
    tests = [
        Comparison("speedup", it.drafter, PLAIN, it.speedup, own)
        for it, own in zip(best, plain, strict=True)
    ]
    over_plain = tested(tests)[0]
    if speed <= 1:
        return [f"Don't draft here. With the best, {name}, {why}."]
    chance = "" if over_plain.significant else " That could be chance:"
    said = [f"Draft with {name}: {why}.{chance} p = {over_plain.p_holm:.2g}."]
    for other in best[1:2]:
        pair = Comparison("speedup", first.drafter, other.drafter, first.speedup, other.speedup)
        (lead,), gap = tested([pair]), speed - float(other.speedup.value)
        needed = prompts_needed(_gap(first.speedup, other.speedup), max(gap, 1e-9))
        how = f"{needed or 'too many'} prompts would tell the two apart"
        how = "which is behind" if lead.p < LEVEL else how
        name = f"{other.drafter}, gamma {other.gamma}, {float(other.speedup.value):.2f}x"
        said.append(f"Runner-up: {name}; {how} (p = {lead.p:.2g}).")
    return said


def _gap(one: Statistic, other: Statistic) -> Statistic:
    """Returns how far apart two ratios are, prompt by prompt."""
    columns = np.concatenate([one.columns, other.columns], axis=-1)
    return Statistic(
        columns, one.weights, lambda sums: one.figure(sums[..., :2]) - other.figure(sums[..., 2:])
    )
