"""The texts of decoding have the target's distribution."""

from collections.abc import Callable
from typing import Any

from torch import Tensor

from outrider import Chance, Sampling, generate
from outrider.testing import Setup, loop_distribution, output_distribution
from outrider.testing.conditionals import Distribution, Text
from outrider.testing.exact import assert_equal, assert_lossless, distribution_of

SAMPLED = Sampling(temperature=1.0)


def assert_exact(setup: Setup, length: int) -> None:
    """Asserts that texts of a length are as likely as the target says, over every branch."""
    whole_round = length == setup.gamma + 1
    assert_lossless(
        output_distribution(setup) if whole_round else loop_distribution(setup, length), setup
    )


def assert_follows(
    play: Callable[[Chance], Text],
    logits: Callable[[Text], Tensor],
    length: int,
    sampling: Sampling = SAMPLED,
    eos: int | None = None,
) -> None:
    """Asserts that the texts of `play` have the distribution of some logits, over every branch.

    logits: returns those after a text, which no token follows once it has `eos`.
    """
    exact: Distribution = {(): 1.0}
    for _ in range(length):
        ended = {text: weight for text, weight in exact.items() if text[-1:] == (eos,)}
        exact = ended | {
            (*text, token): weight * p
            for text, weight in exact.items()
            if text not in ended
            for token, p in enumerate(sampling.probs(logits(text)).tolist())
        }
    assert_equal(distribution_of(play), exact)


def texts_by_chance(*parts: Any, length: int, **options: Any) -> Callable[[Chance], Text]:
    """Returns what writes a text of `generate` by the chance that it is given."""

    def play(chance: Chance) -> Text:
        sizes = {"gamma": 2, "max_new_tokens": length, "sampling": SAMPLED}
        return tuple(generate(*parts, chance=chance, **sizes, **options).tokens)

    return play
