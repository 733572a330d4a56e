"""A drafter that fails ends its own measuring, and that of no other."""

import re
from typing import Any

import pytest
from tiny.comparisons import PROMPTS, timeless

from outrider import Context, Drafter, DrafterError, OutriderError, Pen, Policy, TargetError
from outrider.drafters.ngram import bigram
from outrider.drafters.none import NoDraft
from outrider.drafters.suffix import Suffix
from outrider.lab.measuring.compare import fit, measure, questions
from outrider.lab.measuring.measurement import Measurement
from outrider.lab.measuring.variants import Question, Settings, Variant
from outrider.policies.entropy import Entropy
from outrider.verifiers.token import Token

SETTINGS = Settings(gamma=2, max_new_tokens=5, repeats=2)


class Fails(Drafter):
    """Writes token 5, until its prompt has a word."""

    def __init__(self, word: int, error: type[Exception] = KeyError) -> None:
        self.word, self.error = word, error

    def propose(self, context: Context, pen: Pen) -> None:
        if self.word in context.tokens[: context.prompt_length]:
            raise self.error("my table")
        if pen.open:
            pen.write(5)


class Refuses(Token):
    def verify(self, *_: Any) -> Any:
        raise ZeroDivisionError


class Stumbles(Policy):
    def depth(self, gamma: int) -> int:
        raise ZeroDivisionError


class Leaves(Drafter):
    """Says that the target is lost, as a drafter that runs it can."""

    def propose(self, context: Context, pen: Pen) -> None:
        raise TargetError("the target is lost")


@pytest.fixture(scope="module")
def asked(target: Any) -> list[Question]:
    return questions(target, PROMPTS, SETTINGS, chat=False, answers=True)


def others() -> dict[str, Variant]:
    """Returns drafters of which two learn, so that figures depend on the questions before."""
    return {
        "none": Variant(NoDraft(), Token()),
        "suffix": Variant(Suffix(), Token()),
        "learns": Variant(bigram(), Token(), Entropy(target=0.5)),
    }


def until_it_fails(
    target: Any, variants: dict[str, Variant], asked: list[Question], **options: Any
) -> tuple[list[Measurement], OutriderError | None]:
    """Returns what is measured, and the error that ends it."""
    fit(target, variants)
    measuring = measure(target, variants, asked, SETTINGS, **options)
    measured = list[Measurement]()
    try:
        measured.extend(measuring)
    except OutriderError as error:
        return measured, error
    return measured, None


@pytest.mark.parametrize("protocol", ["overlap", "decode", "both"])
def test_the_others_are_measured_as_without_a_drafter_that_fails(
    target: Any, asked: list[Question], protocol: str
) -> None:
    word = target.tokenizer.encode("three")[-1]  # of the second prompt
    variants = {"fails": Variant(Fails(word), Token()), **others()}
    options = {"protocol": protocol}
    measured, error = until_it_fails(target, variants, asked, **options)
    assert isinstance(error, DrafterError) and "drafter Fails raised KeyError" in str(error)
    (failure,) = [each for each in measured if each.error is not None]
    assert (failure.prompt, failure.drafter, failure.error) == ("b", "fails", str(error))
    assert [each.turn for each in measured if each.drafter == "fails"] == [1, 2, 1]
    whole, _ = until_it_fails(target, others(), asked, **options)
    rest = [each for each in measured if each.drafter != "fails"]
    assert timeless(rest) == timeless(whole)


@pytest.mark.parametrize(
    "variant",
    [
        Variant(bigram(), Refuses()),
        Variant(bigram(), Token(), Stumbles()),
        Variant(Fails(2, OSError), Token()),
    ],
    ids=["rule", "policy", "warm-up"],
)
def test_a_drafter_with_a_part_that_fails_is_left_out(
    target: Any, asked: list[Question], variant: Variant
) -> None:
    variants = {"whole": Variant(bigram(), Token()), "fails": variant}
    measured, error = until_it_fails(target, variants, asked[:1], protocol="decode")
    assert re.search("raised (ZeroDivision|OS)Error", str(error))
    assert [each.drafter for each in measured] == ["fails", "whole"]


def test_nothing_is_measured_once_all_that_draft_have_failed(
    target: Any, asked: list[Question]
) -> None:
    variants = {"none": others()["none"], "fails": Variant(Fails(asked[0].tokens[0]), Token())}
    measured, error = until_it_fails(target, variants, asked)
    assert error is not None
    assert [each.drafter for each in measured] == ["fails"]


def test_an_error_of_the_target_ends_the_run(target: Any, asked: list[Question]) -> None:
    variants = {"leaves": Variant(Leaves(), Token()), **others()}
    measured, error = until_it_fails(target, variants, asked)
    assert isinstance(error, TargetError)
    assert measured == []


def test_drafters_with_other_questions_done_are_measured_apart(
    target: Any, asked: list[Question]
) -> None:
    whole, _ = until_it_fails(target, others(), asked, protocol="decode")
    done = [each for each in whole if each.drafter != "suffix" or each.prompt == "a"]
    options = {"protocol": "decode", "done": done}
    rest, _ = until_it_fails(target, others(), asked, **options)
    assert timeless(rest) == timeless([each for each in whole if each not in done])
