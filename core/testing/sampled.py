"""Texts that the loop samples, held against the distribution that is enumerated."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace

from outrider.contract.drafter import Drafter
from outrider.decoding.decode import decode_together
from outrider.testing.chi_square import assert_sampled
from outrider.testing.exact import Distribution, Setup, loop_text


def assert_samples(
    setup: Setup,
    exact: Distribution,
    *,
    length: int,
    count: int,
    single: int,
    make: Callable[[], Drafter],
) -> None:
    """Raises AssertionError unless texts that a batch writes have a distribution.

    length: of a text, in tokens. count: how many texts there are.
    single: how many of them are written alone, too, which gives the same texts.
    make: makes the drafter of a text that is written alone.
    """
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
