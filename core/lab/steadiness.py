"""Steadiness: whether the clock's figures can be believed."""

import statistics
from collections.abc import Mapping, Sequence

from outrider.lab.intervals import Interval
from outrider.lab.measurement import Decoding

DRIFT = 1.1
"""From this ratio on, plain decoding is said to drift."""

FEWEST = 6
"""The fewest questions whose first, second and last third are compared."""


def drift(texts: Sequence[Decoding]) -> float:
    """Returns how many times as slow plain decoding was at its slowest as at its fastest.

    The larger of two: between the first, the second and the last third of a run, by the median
    seconds of a call; and between the repeats of a question, the median over questions. 1 if there
    are neither repeats nor six questions.

    texts: of one drafter, in the order of measuring.
    """
    ratios = [1.0]
    repeated = [text.plain_repeats for text in texts if len(text.plain_repeats) > 1]
    if repeated:
        ratios.append(statistics.median(max(times) / min(times) for times in repeated))
    if len(texts) >= FEWEST:
        calls = [text.plain_call for text in texts]
        cuts = [len(calls) * third // 3 for third in range(4)]
        thirds = [statistics.median(calls[cuts[third] : cuts[third + 1]]) for third in range(3)]
        ratios.append(max(thirds) / min(thirds))
    return max(ratios)


def doubts(
    rates: Mapping[str, Interval | None], speedups: Sequence[float], gamma: int, drifted: float
) -> tuple[str, ...]:
    """Returns in words why a drafter's speedup can't be trusted; empty if it can.

    A call of the target costs at least what it costs in plain decoding, so the speedup can't exceed
    the tokens of a call, and on no prompt gamma + 1. Where it does, the clock is wrong.

    speedups: by prompt. drifted: see `drift`.
    """
    reasons = []
    speedup, tokens = rates["speedup"], rates["block_efficiency"]
    if speedup is not None and tokens is not None and speedup.value > 1.01 * tokens.value:
        reasons.append("the speedup is above the tokens a call")
    impossible = sum(value > gamma + 1 for value in speedups)
    if impossible:
        reasons.append(f"above gamma + 1 on {impossible} of {len(speedups)} prompts")
    if drifted >= DRIFT:
        reasons.append(f"plain decoding drifts by {100 * (drifted - 1):.0f}%")
    return tuple(reasons)
