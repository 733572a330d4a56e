"""Decodes questions with every variant, and times them against plain decoding."""

import copy
import statistics
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, partial
from time import perf_counter
from typing import final

from outrider.base.errors import OutriderError, TargetError
from outrider.contract.chance import SampledChance
from outrider.contract.target import Target
from outrider.decoding.decode import decode, decode_together
from outrider.decoding.detokenizer import text_of
from outrider.decoding.generation import Generation
from outrider.drafters.none import NoDraft
from outrider.lab.measuring.measurement import Decoding, Measurement, Step
from outrider.lab.measuring.texts import seed, seeded
from outrider.lab.measuring.variants import PLAIN, PLAIN_NAME, Question, Settings, Variant


@final
class Failure(Exception):
    """A part of a variant has raised an error.

    error: the error. measurement: what is stored of it.
    """

    def __init__(self, name: str, question: Question, error: OutriderError) -> None:
        super().__init__(str(error))
        self.error = error
        self.measurement: Measurement = Measurement(*question.place, name, error=str(error))


@contextmanager
def recording_failure_of(name: str, question: Question) -> Iterator[None]:
    """Raises a `Failure` of a variant in place of its error.

    The target's errors stay as they are, and so does one of memory that is full.

    name: the variant's, or that of plain decoding, all of whose errors stay.
    """
    try:
        yield
    except OutriderError as error:
        if isinstance(error, TargetError) or name == PLAIN_NAME:
            raise
        raise Failure(name, question, error) from error


WARM_UP = 8
"""Tokens to decode before the clock starts."""


def warm_up(
    target: Target,
    variants: Mapping[str, Variant],
    questions: Sequence[Question],
    settings: Settings,
) -> None:
    """Decodes a few tokens with every variant and without, so that one-time costs are not timed."""
    short = replace(settings, max_new_tokens=min(WARM_UP, settings.max_new_tokens))
    for name, variant in ((PLAIN_NAME, PLAIN), *variants.items()):
        with recording_failure_of(name, questions[0]):
            decoded(target, variant.with_own_memory(), questions, short)


def trials(
    target: Target,
    by_repeat: Sequence[Mapping[str, Variant]],
    questions: Sequence[Question],
    settings: Settings,
) -> Iterator[Measurement]:
    """Decodes the questions together with each variant, as often as the settings say.

    The speed of a machine drifts, so the variants, plain decoding among them, take turns at going
    first. For a variant that drafts nothing the result is that of plain decoding.

    by_repeat: the variants of each repeat; they differ in what they remember.
    """
    variants = by_repeat[0]
    timed = {name: it for name, it in variants.items() if not isinstance(it.drafter, NoDraft)}
    order, number = [PLAIN_NAME, *timed], questions[0].number // settings.together
    # A policy that learns starts every repeat with what it knew before this trial.
    before = {name: _with_own_policy(variant) for name, variant in timed.items()}
    texts: dict[str, list[list[Generation]]] = {name: [] for name in order}
    for repeat, repeating in enumerate(by_repeat):
        first = (number + repeat) % len(order)
        for name in order[first:] + order[:first]:
            variant = PLAIN if name == PLAIN_NAME else timed[name]
            if repeat and name in timed:
                variant = replace(_with_own_policy(before[name]), drafter=repeating[name].drafter)
            with recording_failure_of(name, questions[0]):
                texts[name].append(decoded(target, variant, questions, settings))
    plain, piece = texts[PLAIN_NAME], cache(partial(piece_of, target))
    scores = [cache(partial(_scores, target, question)) for question in questions]
    for name in variants:
        for index, question in enumerate(questions):
            repeats = [repeat[index] for repeat in texts.get(name, plain)]
            beside = [repeat[index] for repeat in plain]
            generation, baseline = _median(repeats), _median(beside)
            # Without the first call, which reads the prompt.
            calls = [round.seconds["score"] for round in baseline.rounds[1:] or baseline.rounds]
            decoding = Decoding(
                steps=tuple(Step.of(round, piece) for round in generation.rounds),
                seconds=generation.total_seconds,
                plain_seconds=baseline.total_seconds / len(baseline.tokens),
                plain_call=statistics.median(calls),
                repeats=tuple(repeat.total_seconds for repeat in repeats),
                plain_repeats=tuple(each.total_seconds / len(each.tokens) for each in beside),
                scores=scores[index](tuple(generation.tokens)),
                plain_scores=scores[index](tuple(baseline.tokens)),
                prompt_tokens=len(question.tokens),
            )
            yield Measurement(*question.place, name, decoding=decoding)


def _with_own_policy(variant: Variant) -> Variant:
    return replace(variant, policy=copy.deepcopy(variant.policy))


def piece_of(target: Target, token: int) -> str:
    """Returns the characters of a token, or its id where there is no tokenizer."""
    if target.tokenizer is None:
        return f" {token}"
    return text_of(target.tokenizer, [token], skip_special_tokens=False)


def _scores(target: Target, question: Question, tokens: tuple[int, ...]) -> dict[str, float]:
    if not question.judges:
        return {}
    assert target.tokenizer is not None, "a target without a tokenizer encoded a prompt"
    answer = text_of(target.tokenizer, tokens, skip_special_tokens=True)
    return {name: judge(answer) for name, judge in question.judges.items()}


def _median(repeats: Sequence[Generation]) -> Generation:
    """Returns the repeat with the median seconds; the faster one of two in the middle."""
    ordered = sorted(repeats, key=lambda generation: generation.total_seconds)
    return ordered[(len(ordered) - 1) // 2]


def decoded(
    target: Target,
    variant: Variant,
    questions: Sequence[Question],
    settings: Settings,
) -> list[Generation]:
    """Returns the text of each question; of several, which are decoded together."""
    parts = target, variant.drafter, variant.verifier
    options = variant.lengths(settings)
    options |= {"max_new_tokens": settings.max_new_tokens, "draft_timeout": settings.draft_timeout}
    generations, began = [Generation() for _ in questions], perf_counter()
    prompts = [question.tokens for question in questions]
    if len(questions) == 1:
        sampling, generation = seeded(settings.sampling, prompts[0]), generations[0]
        for round in decode(
            *parts, prompts[0], sampling=sampling, policy=variant.policy, **options
        ):
            generation.add(round)
        return generations
    for number, round in decode_together(
        *parts,
        prompts,
        batch_size=len(questions),
        sampling=settings.sampling,
        policies=[copy.deepcopy(variant.policy) for _ in questions],
        chances=[SampledChance.seeded(seed(settings.sampling, ids)) for ids in prompts],
        **options,
    ):
        generations[number].add(round)
    # Each text has its share of the seconds, in proportion to its own phases.
    seconds = perf_counter() - began
    own = [sum(sum(round.seconds.values()) for round in text.rounds) for text in generations]
    for generation, spent in zip(generations, own, strict=True):
        generation.total_seconds = seconds * spent / sum(own)
    return generations
