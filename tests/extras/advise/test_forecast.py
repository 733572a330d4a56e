"""What is expected of a setting follows from counted rounds and typical times, and no outlier."""

from collections.abc import Sequence

import pytest

from outrider.drafters.ngram import bigram
from outrider.drafters.online import Online
from outrider.drafters.prompt_lookup import PromptLookup
from outrider.drafters.token_recycling import TokenRecycling
from outrider.extras.advise.forecast import (
    InTurn,
    Setting,
    advice,
    as_measured,
    best_of,
    by_length,
    has_lengths,
    round_seconds,
)
from outrider.lab.measuring.measurement import Decoding, Measurement, Overlap, Step
from outrider.lab.measuring.variants import Variant
from outrider.lab.statistics.intervals import ratio
from outrider.policies.confidence import Confidence
from outrider.verifiers.lenient import Lenient
from outrider.verifiers.recursive import Candidates
from outrider.verifiers.token import Token

READING = 5.0
"""The seconds that the tests' prompts take to read."""


def step(drafted: int, more: float = 0.0) -> Step:
    """A round: its call takes 1 + .25 k seconds and its draft .5 k, and `more` if need be."""
    spent = 0.5 * drafted, 1 + 0.25 * drafted + more, 0.0
    return Step((7,), (), (), drafted, 0, 0, (), (), *spent, None)


def text(prompt: str, longest: int = 2, slow: float = 0.0) -> list[Measurement]:
    """A text with drafts of up to two tokens in turn. slow: the seconds of one hindered round."""
    steps = [step(min(drafted, longest)) for drafted in (0, 1, 2, 0, 1, 2)]
    steps = [step(min(2, longest), READING), *steps, step(0, slow)]
    return [Measurement(prompt, 1, "chat", "x", decoding=Decoding(tuple(steps), 9.0, 2.0, 1.0))]


def along(prompt: str, tokens: float, *rounds: float) -> list[Measurement]:
    sums = Overlap((tokens,), (), (), rounds, (), (), None)
    return [Measurement(prompt, 1, "chat", "x", overlap=sums)]


def test_lengths_come_in_turn_and_begin_anew_with_each_text() -> None:
    policy = InTurn()
    for _ in range(2):
        policy.reset()
        assert [policy.depth(3) for _ in range(6)] == [3, 0, 1, 2, 3, 0]


@pytest.mark.parametrize(
    ("variant", "tells"),
    [
        (Variant(bigram(), Token()), True),
        (Variant(PromptLookup(), Token()), True),
        (Variant(bigram(), Token(), Confidence()), False),  # it stops by itself
        (Variant(TokenRecycling(), Candidates()), False),  # a tree
        (Variant(Online(), Token()), False),  # it learns from rounds
        (Variant(bigram(), Lenient(0.5)), False),  # its texts are not the target's
    ],
)
def test_overlap_tells_of_lossless_chains_of_a_fixed_length_alone(
    variant: Variant, tells: bool
) -> None:
    assert has_lengths(variant) is tells


def test_a_round_takes_as_long_as_most_of_its_kind() -> None:
    assert round_seconds([text("a"), text("b", slow=60.0)], 2, 64) == pytest.approx([1, 1.75, 2.5])


def test_rounds_in_which_nothing_is_found_are_as_cheap_as_they_are() -> None:
    found = round_seconds([text("a"), text("b", longest=0)], 2, 64)
    assert found == pytest.approx([1, (1 + 1.75) / 2, (1 + 2.5) / 2])


def test_lengths_without_room_are_not_timed() -> None:
    assert round_seconds([text("a")], 2, 5) == pytest.approx([1, 1.75])
    assert round_seconds([text("a")], 2, 1) == []
    assert by_length("x", [along("a", 1, 1, 1)], [text("a")], []) == []


def test_the_expected_speedup_is_that_of_the_counted_rounds_and_the_reading() -> None:
    """Theorem 3.8 with measured tokens and times in place of alpha and c."""
    names = "abcdef"
    overlaps, decoded = [along(name, 40, 30, 20) for name in names], [*map(text, names)]
    one, two = by_length("x", overlaps, decoded, [1.0, 1.75, 2.5])
    assert (one.gamma, one.tokens, one.cost) == (1, pytest.approx(40 / 30), 1.75)
    once = READING + 0.5  # the call that reads also scores a draft
    assert float(one.speedup.value) == pytest.approx((once + 40) / (READING + 30 * 1.75))
    assert float(two.speedup.value) == pytest.approx((once + 40) / (READING + 20 * 2.5))
    elsewhere, _ = by_length("x", overlaps, decoded, [1.0, 1.5, 2.0], reads=False)
    assert float(elsewhere.speedup.value) == pytest.approx(40 / (30 * 1.5))


def test_a_setting_without_overlap_is_taken_as_it_was_decoded() -> None:
    found = as_measured("x", 4, [text("a"), text("b")])
    assert (found.gamma, found.tokens) == (4, 1)
    assert float(found.speedup.value) == pytest.approx(8 * 2 / 9)
    assert found.cost == pytest.approx(9 / 16)


def setting(drafter: str, gamma: int, speedups: Sequence[float]) -> Setting:
    return Setting(drafter, gamma, ratio(speedups, [1.0] * len(speedups)), 1.5, 1.2)


FAST, SLOW = [1.4, 1.5, 1.6, 1.5, 1.4, 1.6, 1.5, 1.5], [0.8, 0.9, 0.7, 0.9, 0.8, 0.8, 0.9, 0.7]
NEAR = [1.6, 1.3, 1.5, 1.6, 1.3, 1.6, 1.4, 1.5]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ([setting("a", 1, SLOW)], ["Don't draft here. With the best, a, gamma 1, 0.81x"]),
        ([setting("a", 2, FAST)], ["Draft with a, gamma 2: 1.50x is expected, since a round"]),
        (
            [setting("a", 1, SLOW), setting("b", 2, FAST), setting("b", 1, NEAR)],
            ["Draft with b", "Runner-up: a, gamma 1, 0.81x; which is behind (p = 0.0078)."],
        ),
        (
            [setting("a", 1, NEAR), setting("b", 2, FAST)],
            ["Draft with b", "Runner-up: a, gamma 1, 1.48x; 104 prompts would tell"],
        ),
    ],
)
def test_advice_names_the_best_setting_and_the_runner_up(
    settings: list[Setting], said: list[str]
) -> None:
    sentences = advice(best_of(settings))
    assert len(sentences) == len(said)
    for sentence, start in zip(sentences, said, strict=True):
        assert sentence.startswith(start), sentence


def test_a_speedup_on_few_prompts_may_be_chance() -> None:
    (sentence,) = advice([setting("a", 1, FAST[:3])])
    assert sentence.endswith("That could be chance: p = 0.25.")
