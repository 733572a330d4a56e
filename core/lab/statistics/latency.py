"""Latency: the times that a reader of a text waits, as serving engines report them."""

from collections.abc import Sequence

import numpy as np

from outrider.lab.measuring.measurement import Decoding, Step

PERCENTILES = (50, 90, 99)


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
    values = np.percentile(times, PERCENTILES)
    percentiles = {
        f"p{percentile}": float(value)
        for percentile, value in zip(PERCENTILES, values, strict=True)
    }
    return {"mean": float(np.mean(times)), **percentiles, "n": len(times)}
