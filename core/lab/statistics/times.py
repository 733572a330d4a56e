"""The times that a reader of a text waits, and whether a run's times are reliable."""

import statistics
from collections.abc import Mapping, Sequence

import numpy as np

from outrider.lab.measuring.measurement import Decoding, Step
from outrider.lab.statistics.intervals import Interval

DRIFT = 1.1
"""The ratio from which on plain decoding counts as drifting."""

FEWEST = 6
"""The fewest questions whose first, second and last third are compared."""

PERCENTILES = (50, 90, 99)


def drift_of(texts: Sequence[Decoding]) -> float:
    """Returns the slowest time of plain decoding over the fastest, 1 for no drift.

    It is the larger of two ratios: that of the median seconds of a call in the three thirds of a
    run, and that of the repeats of a question, the median over questions. 1 if there are neither
    repeats nor six questions.

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


def timing_warnings(
    rates: Mapping[str, Interval | None], speedups: Sequence[float], gamma: int, drift: float
) -> tuple[str, ...]:
    """Returns in words why a drafter's speedup can't be trusted; empty if it can.

    A target call takes at least as long as in plain decoding. So a speedup above the tokens
    per call, or above gamma + 1 on a single prompt, shows that a time is wrong.

    speedups: by prompt. drift: see `drift_of`.
    """
    reasons = []
    speedup, tokens = rates["speedup"], rates["block_efficiency"]
    if speedup is not None and tokens is not None and speedup.value > 1.01 * tokens.value:
        reasons.append("the speedup is above the tokens per call")
    impossible = sum(value > gamma + 1 for value in speedups)
    if impossible:
        reasons.append(f"above gamma + 1 on {impossible} of {len(speedups)} prompts")
    if drift >= DRIFT:
        reasons.append(f"plain decoding drifts by {100 * (drift - 1):.0f}%")
    return tuple(reasons)


def latency(texts: Sequence[Decoding]) -> dict[str, dict[str, float]]:
    """Returns times in seconds, each by `mean`, `p50`, `p90` and `p99`, with their number `n`.

    time_to_first_token: of the first round of a text, which reads the prompt.
    time_per_output_token: of each token after the first, (seconds - time to the first) / (n - 1)
        for a text of n tokens; texts of one token have none.
    inter_token_latency: of a round after the first. Its tokens come together, so this is how long
        nothing comes.
    request_latency: of a whole text.

    The names and formulas are those of vLLM's `bench serve`. Percentiles are over texts, or over
    rounds for `inter_token_latency`; Chen et al. (2302.01318) warn of their spread. A time that no
    text has is left out.
    """
    first = [_seconds(text.steps[0]) for text in texts if text.steps]
    after = [
        (text.seconds - _seconds(text.steps[0])) / (text.counts.emitted - 1)
        for text in texts
        if text.counts.emitted > 1
    ]
    times = {
        "time_to_first_token": first,
        "time_per_output_token": after,
        "inter_token_latency": [_seconds(step) for text in texts for step in text.steps[1:]],
        "request_latency": [text.seconds for text in texts],
    }
    return {name: _spread(values) for name, values in times.items() if values}


def _seconds(step: Step) -> float:
    return step.draft + step.score + step.verify


def _spread(times: Sequence[float]) -> dict[str, float]:
    percentiles = zip(PERCENTILES, np.percentile(times, PERCENTILES).tolist(), strict=True)
    spread = {f"p{percentile}": value for percentile, value in percentiles}
    return {"mean": float(np.mean(times)), **spread, "n": len(times)}
