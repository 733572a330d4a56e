"""The speedup that theory predicts, and why the measured one differs."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from outrider.lab.measuring.measurement import Decoding
from outrider.lab.statistics.intervals import Interval
from outrider.theory import expected_tokens, optimal_gamma, walltime_improvement

FACTORS = {
    "stretches": "tokens per call: acceptance comes in stretches, and drafts end early",
    "draft": "fewer tokens drafted per round than gamma",
    "scoring": "scoring a whole draft costs more than scoring one token",
    "overhead": "the acceptance rule and the loop",
    "rest": "reading the prompt, and the spread between prompts",
}
"""What each factor between the predicted and the measured speedup stands for."""


@final
@dataclass(frozen=True, slots=True)
class Prediction:
    """What Theorem 3.8 predicts for a drafter, and what explains the measured speedup.

    The ratios are in units of a plain target call: one that scores one token.

    cost_ratio: c, the seconds of one draft token.
    score_ratio: the seconds of the call that scores a draft.
    overhead: the seconds per round of everything else.
    predicted_speedup: Theorem 3.8 (Leviathan et al. 2211.17192) from gamma, c and the share of
        tokens accepted. A draft that ends before gamma by itself counts as rejected there, as a
        prefix without a draft does in alpha.
    optimal_gamma: the gamma with the largest predicted speedup.
    factors: by the names in `FACTORS`; their product is the measured over the predicted speedup.

    The first call of each text, which reads the prompt, counts only in the factor `rest`.
    """

    cost_ratio: float
    score_ratio: float
    overhead: float
    predicted_speedup: float
    optimal_gamma: int
    factors: dict[str, float]


def predict(texts: Sequence[Decoding], gamma: int, measured: Interval | None) -> Prediction | None:
    """Returns the prediction for a drafter from its texts, or None if it drafted nothing.

    measured: the measured speedup.
    """
    # Without the first round of each text, whose call reads the prompt.
    later = [(text, step) for text in texts for step in text.steps[1:]]
    drafted = sum(step.drafted for _, step in later)
    tested = sum(step.tested for _, step in later)
    if not tested or measured is None:
        return None
    call = statistics.fmean(text.plain_call for text, _ in later)
    rounds = len(later)
    accepted = sum(step.accepted for _, step in later)
    c = sum(step.draft for _, step in later) / drafted / call
    score = sum(step.score for _, step in later) / rounds / call
    overhead = sum(step.verify for _, step in later) / rounds / call
    # Drafts that were accepted whole, and were shorter than gamma by their own choice.
    ended_early = sum(s.stop is None and s.accepted == s.tested < gamma for _, s in later)
    alpha, length = accepted / (tested + ended_early), drafted / rounds
    tokens = sum(len(step.tokens) for _, step in later) / rounds
    predicted = walltime_improvement(alpha, gamma, c)
    factors = {
        "stretches": tokens / expected_tokens(alpha, gamma),
        "draft": (gamma * c + 1) / (length * c + 1),
        "scoring": (length * c + 1) / (length * c + score),
        "overhead": (length * c + score) / (length * c + score + overhead),
    }
    steady = tokens / (length * c + score + overhead)
    factors["rest"] = measured.value / steady
    best = optimal_gamma(alpha, c)
    return Prediction(c, score, overhead, predicted, best, factors)
