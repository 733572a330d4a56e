"""Rates: every figure of a comparison as a statistic over prompts, with the scale of its interval.

docs/measures.md explains the rates.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from outrider.contract.round import Counts
from outrider.lab.measuring.measurement import Decoding, Measurement, Overlap
from outrider.lab.statistics.acceptance import ends_by_depth, expected_ends, tokens_of_a_round
from outrider.lab.statistics.intervals import Floats, Scale, Statistic, ratio

Prompts = Sequence[Sequence[Measurement]]
"""The measurements of one drafter, by prompt."""

Figure = Callable[[Measurement], float]


@final
@dataclass(frozen=True)
class Rate:
    """A figure of one drafter over prompts.

    scale: where its interval is symmetric.
    statistic: takes the measurements; the figure is NaN where the run has no data for it.
    """

    scale: Scale
    statistic: Callable[[Prompts], Statistic]


def _sums(numerator: Figure, denominator: Figure) -> Callable[[Prompts], Statistic]:
    """Returns the ratio of two figures, each summed over a prompt's measurements."""

    def statistic(prompts: Prompts) -> Statistic:
        return ratio(
            [sum(map(numerator, measurements)) for measurements in prompts],
            [sum(map(denominator, measurements)) for measurements in prompts],
        )

    return statistic


def _of_overlap(field: Callable[[Overlap], float]) -> Figure:
    """Returns a figure of the overlap protocol; it is 0 for measurements of decoding."""
    return lambda measurement: field(measurement.overlap) if measurement.overlap else 0.0


def _of_counts(field: Callable[[Counts], int]) -> Figure:
    """Returns a count of decoding; it is 0 for measurements of the overlap protocol."""
    return _of_decoding(lambda decoding: float(field(decoding.counts)))


def _of_decoding(field: Callable[[Decoding], float]) -> Figure:
    return lambda measurement: field(measurement.decoding) if measurement.decoding else 0.0


def _uncut_tokens(prompts: Prompts) -> Statistic:
    """Returns the tokens of a round in decoding, in which rounds that were cut are censored."""
    rows = [
        ends_by_depth([step for m in measurements if m.decoding for step in m.decoding.steps])
        for measurements in prompts
    ]
    rounds = [
        sum(len(m.decoding.steps) for m in measurements if m.decoding) for measurements in prompts
    ]
    return _survival(rows, rounds)


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
    """Returns the names of the scores that texts have."""
    texts = (each.decoding for each in measurements if each.decoding is not None)
    return list(dict.fromkeys(score for text in texts for score in text.scores))


def rates_with(scores: Sequence[str]) -> dict[str, Rate]:
    """Returns the rates by name, those of a run's scores after `RATES`."""
    return {**RATES, **{name: rate for score in scores for name, rate in _quality(score).items()}}


def _quality(score: str) -> dict[str, Rate]:
    """Returns the mean of a score over texts, and that of its difference from plain decoding's."""
    value = _of_decoding(lambda text: text.scores.get(score, 0.0))
    plain = _of_decoding(lambda text: text.plain_scores.get(score, 0.0))
    count = _of_decoding(lambda text: float(score in text.scores))
    return {
        score: Rate("logit", _sums(value, count)),
        f"{score}_difference": Rate("linear", _sums(lambda m: value(m) - plain(m), count)),
    }


def _share_of_overlap(part: Callable[[Overlap], float], whole: Callable[[Overlap], float]) -> Rate:
    return Rate("logit", _sums(_of_overlap(part), _of_overlap(whole)))


RATES: Mapping[str, Rate] = {
    "alpha": _share_of_overlap(lambda sums: sums.beta[0], lambda sums: sums.prefixes[0]),
    "coverage": _share_of_overlap(lambda sums: sums.reached[0], lambda sums: sums.prefixes[0]),
    "alpha_rule": _share_of_overlap(
        lambda sums: sums.by_rule or 0.0,
        lambda sums: 0.0 if sums.by_rule is None else sums.prefixes[0],
    ),
    "overshoot": _share_of_overlap(
        lambda sums: sums.overshoot or 0.0,
        lambda sums: 0.0 if sums.overshoot is None else sums.prefixes[0],
    ),
    "alpha_ceiling": _share_of_overlap(lambda sums: sums.ceiling[0], lambda sums: sums.ceiling[1]),
    "expected_alpha_tested": _share_of_overlap(
        lambda sums: sums.accepted[-1], lambda sums: sums.tested[-1]
    ),
    "expected_block_efficiency": Rate("log", _expected_tokens),
    "alpha_control": _share_of_overlap(lambda sums: sums.control[0], lambda sums: sums.control[1]),
    "alpha_tested": Rate(
        "logit", _sums(_of_counts(lambda counts: counts.accepted), _of_counts(lambda c: c.tested))
    ),
    "acceptance_rate": Rate(
        "logit", _sums(_of_counts(lambda counts: counts.accepted), _of_counts(lambda c: c.drafted))
    ),
    "block_efficiency": Rate(
        "log", _sums(_of_counts(lambda counts: counts.emitted), _of_counts(lambda c: c.rounds))
    ),
    "block_efficiency_uncut": Rate("log", _uncut_tokens),
    "tokens_per_second": Rate(
        "log",
        _sums(_of_counts(lambda counts: counts.emitted), _of_decoding(lambda text: text.seconds)),
    ),
    "speedup": Rate(
        "log",
        _sums(
            _of_decoding(lambda text: text.plain_seconds * text.counts.emitted),
            _of_decoding(lambda text: text.seconds),
        ),
    ),
}
"""By name, in the order of the tables; `rates_with` adds those of scores."""
