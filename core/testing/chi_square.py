"""How likely counts are to stray this far from what is expected."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

import torch

from outrider.contract.drafter import Drafter
from outrider.decoding.decode import decode_together
from outrider.testing.conditionals import Distribution
from outrider.testing.exact import Setup, loop_text

SIGNIFICANCE = 1e-6
"""A p-value below this fails a check: the chance of failing a right part, were seeds not fixed."""


def chi_square(counts: torch.Tensor, probs: torch.Tensor) -> float:
    """Returns the p-value of counts under `probs` (Pearson's chi-square test)."""
    total = float(counts.sum())
    if total == 0:
        return 1.0
    expected = probs.double() * total
    statistic = ((counts.double() - expected) ** 2 / expected).sum()
    freedom = torch.tensor((len(counts) - 1) / 2, dtype=torch.float64)
    return float(torch.special.gammaincc(freedom, statistic / 2))


def assert_sampled(
    texts: Iterable[tuple[int, ...]], exact: Mapping[tuple[int, ...], float]
) -> None:
    """Raises AssertionError if sampled texts are too far from their exact distribution.

    Texts of which fewer than five are expected count together, as the approximation needs it.
    """
    counts = Counter(texts)
    total = counts.total()
    impossible = [text for text in counts if exact.get(text, 0) <= 0]
    assert not impossible, f"sampled {impossible[0]}, which is impossible by enumeration"
    rare = {text for text, p in exact.items() if p * total < 5}
    groups = [{text} for text in exact.keys() - rare] + ([rare] if rare else [])
    expected = torch.tensor([sum(exact[text] for text in sorted(group)) for group in groups])
    seen = torch.tensor([float(sum(counts[text] for text in group)) for group in groups])
    value = chi_square(seen[expected > 0], expected[expected > 0])
    assert value > SIGNIFICANCE, (
        f"{total} sampled texts are far from the distribution by enumeration (p-value {value:.0e})"
    )


def assert_samples(
    setup: Setup, exact: Distribution, count: int, single: int, make: Callable[[], Drafter]
) -> None:
    """Raises AssertionError unless texts that a batch writes have a distribution.

    count: how many texts there are.
    single: how many of them are written alone, too, which gives the same texts.
    make: makes the drafter of a text that is written alone.
    """
    length = max(map(len, exact))
    together = decode_together(
        setup.target, setup.drafter, setup.verifier, [setup.prompt] * count,
        gamma=setup.gamma, budget=setup.budget, sampling=setup.sampling, max_new_tokens=length,
    )  # fmt: skip
    texts: dict[int, list[int]] = defaultdict(list)
    for number, round in together:
        texts[number] += round.tokens
    for number in range(0, count, count // single):
        alone = list(loop_text(replace(setup, drafter=make()), length, number=number))
        assert alone == texts[number], (
            f"text {number} is {alone} when it is written alone, and {texts[number]} in a batch"
        )
    assert_sampled(map(tuple, texts.values()), exact)
