"""Acceptance in the field's terms: lengths of rounds, and rates by position, as counted."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, final

from outrider.lab.measuring.measurement import Measurement
from outrider.lab.statistics.intervals import Interval, interval, ratio
from outrider.lab.statistics.profile import above


@final
@dataclass(frozen=True, slots=True)
class Acceptance:
    """What engines and NVIDIA's specdec_bench report of a drafter.

    The length of a round is the number of tokens that it adds to the text, the target's own among
    them. Rounds that a stop or the length limit cut are counted as they are; see
    docs/measures.md for how far that is from `block_efficiency`.

    histogram: how many rounds had each length.
    mean: of the lengths of rounds.
    mean_per_request: of the mean lengths of texts, so that a short text counts as much as a long
        one; None if they are not known.
    marginal: for each position of a draft, the share of all rounds whose draft was accepted up to
        there.
    conditional: the same of the rounds whose draft was accepted up to the position before; None
        where there was none.
    """

    histogram: Mapping[int, int]
    mean: Interval
    mean_per_request: Interval | None
    marginal: tuple[float, ...]
    conditional: tuple[float | None, ...]

    def plain(self) -> dict[str, Any]:
        """Returns the figures by their names in `comparison.json`."""
        return {
            "acceptance_length_histogram": {str(k): v for k, v in self.histogram.items()},
            "mean_acceptance_length": asdict(self.mean),
            "mean_acceptance_length_per_request": None
            if self.mean_per_request is None
            else asdict(self.mean_per_request),
            "marginal_accept_rates": list(self.marginal),
            "conditional_accept_rates": list(self.conditional),
        }


def acceptance(prompts: Sequence[Sequence[Measurement]], gamma: int) -> Acceptance | None:
    """Returns the acceptance of a drafter; None if it decoded nothing.

    prompts: its measurements, by prompt.
    gamma: the number of positions.
    """
    texts = [
        [[len(step.tokens) for step in m.decoding.steps] for m in prompt if m.decoding]
        for prompt in prompts
    ]
    lengths = [length for prompt in texts for text in prompt for length in text]
    mean = interval(
        ratio(
            [sum(map(sum, prompt)) for prompt in texts], [sum(map(len, prompt)) for prompt in texts]
        ),
        "log",
    )
    per_request = interval(
        ratio(
            [sum(sum(text) / len(text) for text in prompt) for prompt in texts],
            [float(len(prompt)) for prompt in texts],
        ),
        "log",
    )
    if mean is None or per_request is None:
        return None
    reached = above(lengths, gamma + 1)
    return Acceptance(
        dict(sorted(Counter(lengths).items())),
        mean,
        per_request,
        tuple(count / len(lengths) for count in reached[1:]),
        tuple(count / before if before else None for before, count in pairwise(reached)),
    )
