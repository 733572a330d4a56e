"""Rates: every figure of a comparison as a statistic over prompts, with the scale of its interval.

docs/measures.md explains the rates.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, final

import numpy as np

from outrider.lab.measuring.measurement import Decoding, Measurement
from outrider.lab.statistics.acceptance import ends_by_depth, expected_ends, tokens_of_a_round
from outrider.lab.statistics.intervals import Floats, Scale, Statistic, ratio

Prompts = Sequence[Sequence[Measurement]]
"""The measurements of one drafter, by prompt."""


@final
@dataclass(frozen=True)
class Rate:
    """A figure of one drafter over prompts.

    scale: where its interval is symmetric.
    statistic: takes the measurements; the figure is NaN where the run has no data for it.
    """

    scale: Scale
    statistic: Callable[[Prompts], Statistic]


def _sums(
    protocol: Literal["overlap", "decoding"],
    numerator: Callable[[Any], float | None],
    denominator: Callable[[Any], float] = lambda it: it.prefixes[0],
    scale: Scale = "logit",
) -> Rate:
    """Returns the ratio of two figures of a protocol, each summed over a prompt's measurements.

    Measurements whose numerator is None have no part in it.
    """

    def statistic(prompts: Prompts) -> Statistic:
        held = [[getattr(m, protocol) for m in own if getattr(m, protocol)] for own in prompts]
        known = [[it for it in own if numerator(it) is not None] for own in held]
        figures: Any = numerator, denominator
        return ratio(*([sum(map(figure, own)) for own in known] for figure in figures))

    return Rate(scale, statistic)


_overlaps, _decoded = partial(_sums, "overlap"), partial(_sums, "decoding")


def _uncut_tokens(prompts: Prompts) -> Statistic:
    """Returns the tokens of a round in decoding, in which rounds that were cut are censored."""
    steps = [[step for m in own if m.decoding for step in m.decoding.steps] for own in prompts]
    return _survival([*map(ends_by_depth, steps)], [*map(len, steps)])


def _expected_tokens(prompts: Prompts) -> Statistic:
    """Returns the same, as the overlap protocol expects it."""
    overlaps = [[m.overlap for m in measurements if m.overlap] for measurements in prompts]
    rounds = [sum(sums.rounds[-1] for sums in own) for own in overlaps]
    if not all(sums.survived for own in overlaps for sums in own if sums.rounds[-1]):
        # Runs of earlier versions did not note which rounds the length limit cut.
        accepted = [sum(sums.accepted[-1] for sums in own) for own in overlaps]
        return ratio(np.add(accepted, rounds), rounds)
    gamma = max((len(sums.rounds) for own in overlaps for sums in own), default=0)
    return _survival([expected_ends(own, gamma) for own in overlaps], rounds)


def _survival(
    rows: Sequence[tuple[Sequence[float] | Floats, Sequence[float] | Floats]],
    rounds: Sequence[float],
) -> Statistic:
    """Returns the expected tokens of a round, from how many drafts survived and ended by depth."""
    depths = max((len(survived) for survived, _ in rows), default=0)
    columns = np.zeros((len(rows), 1 + 2 * depths))
    columns[:, 0] = rounds
    for line, (survived, ended) in zip(columns, rows, strict=True):
        line[1 : 1 + 2 * len(survived) : 2] = survived
        line[2 : 2 + 2 * len(ended) : 2] = ended
    return Statistic(columns, columns[:, 0], _tokens)


def _tokens(sums: Floats) -> Floats:
    """Returns the tokens of a round; the sums are the rounds, then survived and ended by depth."""
    tokens = tokens_of_a_round(sums[..., 1::2], sums[..., 2::2])
    return np.where(sums[..., 0] > 0, tokens, np.nan)


def scores_in(measurements: Sequence[Measurement]) -> list[str]:
    texts = (each.decoding for each in measurements if each.decoding is not None)
    return list(dict.fromkeys(score for text in texts for score in text.scores))


def rates_with(scores: Sequence[str]) -> dict[str, Rate]:
    """Returns the rates by name, those of a run's scores after `RATES`."""
    return {**RATES, **{name: rate for score in scores for name, rate in _quality(score).items()}}


def _quality(score: str) -> dict[str, Rate]:
    """Returns the mean of a score over texts, and that of its difference from plain decoding's."""

    def difference(text: Decoding) -> float | None:
        own = text.scores.get(score)
        return None if own is None else own - text.plain_scores.get(score, 0.0)

    return {
        score: _decoded(lambda it: it.scores.get(score), lambda it: 1),
        f"{score}_difference": _decoded(difference, lambda it: 1, "linear"),
    }


RATES: Mapping[str, Rate] = {
    "alpha": _overlaps(lambda it: it.beta[0]),
    "coverage": _overlaps(lambda it: it.reached[0]),
    "alpha_rule": _overlaps(lambda it: it.by_rule),
    "overshoot": _overlaps(lambda it: it.overshoot),
    "alpha_ceiling": _overlaps(lambda it: it.ceiling[0], lambda it: it.ceiling[1]),
    "expected_alpha_tested": _overlaps(lambda it: it.accepted[-1], lambda it: it.tested[-1]),
    "expected_block_efficiency": Rate("log", _expected_tokens),
    "alpha_control": _overlaps(lambda it: it.control[0], lambda it: it.control[1]),
    "alpha_tested": _decoded(lambda it: it.counts.accepted, lambda it: it.counts.tested),
    "acceptance_rate": _decoded(lambda it: it.counts.accepted, lambda it: it.counts.drafted),
    "block_efficiency": _decoded(lambda it: it.counts.emitted, lambda it: it.counts.rounds, "log"),
    "block_efficiency_uncut": Rate("log", _uncut_tokens),
    "tokens_per_second": _decoded(lambda it: it.counts.emitted, lambda it: it.seconds, "log"),
    "speedup": _decoded(
        lambda it: it.plain_seconds * it.counts.emitted, lambda it: it.seconds, "log"
    ),
}
"""By name, in the order of the tables; `rates_with` adds those of scores."""
