"""Acceptance by depth of the draft, by rank among siblings, and in the field's terms."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import final

import numpy as np

from outrider.lab.measuring.measurement import Decoding, Measurement, Overlap, Step
from outrider.lab.statistics.intervals import Floats, Interval, interval, ratio


def by_depth(prompts: Sequence[Sequence[Measurement]], gamma: int) -> dict[str, list[float | None]]:
    """Returns the figures of `outrider.lab.runs.row.Row.depths`.

    Depths past a stop or past the end of the draft were not tested in decoding: they are censored.

    prompts: the measurements of a drafter, by prompt.
    """
    overlaps = [m.overlap for prompt in prompts for m in prompt if m.overlap is not None]
    steps = [[s for m in prompt if m.decoding for s in m.decoding.steps] for prompt in prompts]
    figures: dict[str, list[float | None]] = {}
    if overlaps:
        sums = (_sums(overlaps, name, gamma) for name in ("beta", "reached"))
        figures["alpha_at"] = _ratios(*sums)
        figures["tokens_at"] = _expected_by_gamma(overlaps, gamma)
    if any(steps):
        tested = np.array([above([step.tested for step in own], gamma) for own in steps])
        reached = np.array([above([step.accepted for step in own], gamma) for own in steps])
        rates = [interval(ratio(*pair), "logit") for pair in zip(reached.T, tested.T, strict=True)]
        for name, end in (("value", ""), ("low", "_low"), ("high", "_high")):
            figures[f"tested_at{end}"] = [getattr(rate, name, None) for rate in rates]
        figures["tested_at_n"] = tested.sum(0).tolist()
        figures["tokens_tested_at"] = [*expected_tokens([*chain(*steps)], gamma)]
    return figures


def above(values: Sequence[int], size: int) -> list[int]:
    """Returns how many of some counts are above 0, above 1, and so on [size]."""
    found = np.bincount(np.minimum(np.array(values, int), size), minlength=size + 1)
    counts: list[int] = found[::-1].cumsum()[::-1][1:].tolist()
    return counts


def by_rank(texts: Sequence[Decoding]) -> list[float] | None:
    """Returns the figures of `outrider.lab.runs.row.Row.ranks`."""
    steps = [step for text in texts for step in text.steps]
    widest = max((width for step in steps for width in step.siblings), default=0)
    if widest < 2:
        return None
    offered = above([width for step in steps for width in step.siblings], widest)
    ranks = Counter(rank for step in steps for rank in step.ranks)
    accepted = [ranks[rank] for rank in range(widest)]
    return [count / total for count, total in zip(accepted, offered, strict=True)]


def ends_by_depth(steps: Sequence[Step]) -> tuple[list[int], list[int]]:
    """Returns how many drafts were accepted past each depth, and how many ended there.

    A draft that is shorter than gamma by itself has ended; one that a stop or the length limit cut
    would have gone on, so it is censored: it counts as far as it went, and has no end.
    """
    depths = max((step.accepted for step in steps), default=0) + 1
    ends = Counter(s.accepted for s in steps if s.tested > s.accepted or not _cut(s))
    survived = above([step.accepted for step in steps], depths)
    ended = [ends[depth] for depth in range(depths)]
    return survived, ended


def _cut(step: Step) -> bool:
    """Returns whether the draft could have been longer, but for the end of the text."""
    if step.stop is None:
        return False
    # A token of the target that ends a text by itself, such as an end token, follows a whole draft.
    own = step.origins[-1:] in (("bonus",), ("plain",))
    return step.stop in ("max_new_tokens", "max_length") or not own


def tokens_of_a_round(survived: Floats, ended: Floats) -> Floats:
    """Returns the expected tokens of a round, at the gamma of the last depth.

    This is the product-limit estimate (Kaplan and Meier 1958) of how long drafts survive.

    survived, ended: see `ends_by_depth` [..., depths].
    """
    at_risk = survived + ended
    shares = np.divide(survived, at_risk, out=np.zeros_like(at_risk), where=at_risk > 0)
    tokens: Floats = 1 + shares.cumprod(-1).sum(-1)
    return tokens


def expected_tokens(steps: Sequence[Step], gamma: int) -> list[float]:
    """Returns the expected tokens of a round at each gamma; rounds that were cut are censored."""
    survived, ended = (
        np.pad(np.array(counts, float), (0, gamma))[:gamma] for counts in ends_by_depth(steps)
    )
    return [
        float(tokens_of_a_round(survived[:depth], ended[:depth])) for depth in range(1, gamma + 1)
    ]


def _expected_by_gamma(overlaps: Sequence[Overlap], gamma: int) -> list[float | None]:
    """Returns the tokens of a round at each gamma, from the overlap protocol."""
    rounds = _sums(overlaps, "rounds", gamma)
    if not all(overlap.survived for overlap in overlaps if overlap.rounds[-1]):
        # Runs of earlier versions did not note which rounds the length limit cut.
        accepted = _sums(overlaps, "accepted", gamma)
        return _ratios([a + r for a, r in zip(accepted, rounds, strict=True)], rounds)
    tokens: list[float | None] = []
    for length in range(1, gamma + 1):
        count = tokens_of_a_round(*expected_ends(overlaps, length))
        tokens.append(float(count) if rounds[length - 1] > 0 else None)
    return tokens


def expected_ends(overlaps: Sequence[Overlap], gamma: int) -> tuple[Floats, Floats]:
    """Returns what `ends_by_depth` is expected to be at one gamma, from the overlap protocol."""
    survived, ended = np.zeros((2, gamma + 1))
    for overlap in overlaps:
        if overlap.survived:
            survived += at_gamma(overlap.survived, gamma)
            ended += at_gamma(overlap.ended, gamma)
    return survived, ended


def _sums(overlaps: Sequence[Overlap], field: str, gamma: int) -> list[float]:
    return [sum(getattr(each, field)[depth] for each in overlaps) for depth in range(gamma)]


def _ratios(numerators: Sequence[float], denominators: Sequence[float]) -> list[float | None]:
    """Returns the ratios; None where the denominator is 0."""
    pairs = zip(numerators, denominators, strict=True)
    return [numerator / denominator if denominator else None for numerator, denominator in pairs]


@final
@dataclass(frozen=True, slots=True)
class Acceptance:
    """What engines and NVIDIA's specdec_bench report of a drafter.

    The length of a round is the number of tokens that it adds to the text, the target's own among
    them. Rounds that a stop or the length limit cut are counted as they are; see
    docs/measures.md for how far that is from `block_efficiency`.

    acceptance_length_histogram: how many rounds had each length.
    mean_acceptance_length: of the lengths of rounds.
    mean_acceptance_length_per_request: of the mean lengths of texts, so that a short text counts as
        much as a long one; None if they are not known.
    marginal_accept_rates: for each position of a draft, the share of all rounds whose draft was
        accepted up to there.
    conditional_accept_rates: the same of the rounds whose draft was accepted up to the position
        before; None where there was none.
    """

    acceptance_length_histogram: Mapping[int, int]
    mean_acceptance_length: Interval
    mean_acceptance_length_per_request: Interval | None
    marginal_accept_rates: tuple[float, ...]
    conditional_accept_rates: tuple[float | None, ...]


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
    tokens, rounds = ([sum(map(count, own)) for own in texts] for count in (sum, len))
    means = [sum(sum(text) / len(text) for text in own) for own in texts]
    mean = interval(ratio(tokens, rounds), "log")
    per_request = interval(ratio(means, [*map(len, texts)]), "log")
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


def at_gamma(by_gamma: Sequence[float], gamma: int) -> Floats:
    """Returns the part for one gamma of `Overlap.survived` or `Overlap.ended` [gamma + 1]."""
    start = (gamma - 1) * (gamma + 2) // 2  # 2 + 3 + ... + gamma values come before
    return np.array(by_gamma[start : start + gamma + 1])
