"""Measures drafters, rules and policies side by side over the same questions."""

import copy
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from outrider.base.calling import calling
from outrider.base.errors import OutriderError, require
from outrider.contract.target import Target
from outrider.data.prompts import Prompt
from outrider.data.score import judges_of
from outrider.decoding.decode import prepare
from outrider.decoding.detokenizer import text_of
from outrider.drafters.none import NoDraft
from outrider.lab.measuring.laws import Recorder
from outrider.lab.measuring.measurement import Measurement
from outrider.lab.measuring.overlap import overlap
from outrider.lab.measuring.reference import reference
from outrider.lab.measuring.texts import written
from outrider.lab.measuring.trial import (
    Failure,
    decoded,
    recording_failure_of,
    trials,
    warm_up,
)
from outrider.lab.measuring.variants import Question, Settings, Variant, ids_asked

PROTOCOLS: Mapping[str, tuple[str, ...]] = {
    "overlap": ("overlap",),
    "decode": ("decode",),
    "both": ("overlap", "decode"),
}
"""By the name in the config, the protocols to run, in this order."""


def questions(
    target: Target,
    prompts: Sequence[Prompt],
    settings: Settings,
    *,
    chat: bool,
    answers: bool,
    folder: Path | None = None,
    on_text: Callable[[], None] = lambda: None,
) -> list[Question]:
    """Returns a question for each turn of each prompt, in the order of the prompts.

    A later turn includes the target's own answers to the turns before it, so it is the same for
    every drafter; that of a replayed conversation includes the answers that were given there.

    chat: wrap turns in the tokenizer's chat template.
    answers: whether to write the answers to last turns too.
    folder, on_text: see `written`.

    Raises `ConfigError` if the target can't take a prompt; the message names the prompt.
    """
    require(len(prompts) > 0, "data", list(prompts), "at least one prompt")
    results: dict[tuple[str, int], Question] = {}
    conversations: dict[str, list[str]] = {prompt.id: [] for prompt in prompts}
    for turn in range(1, max(len(prompt.turns) for prompt in prompts) + 1):
        active = [prompt for prompt in prompts if len(prompt.turns) >= turn]
        for prompt in active:
            conversations[prompt.id].append(prompt.turns[turn - 1])
        encoded = [ids_asked(target, it, conversations[it.id], chat=chat) for it in active]
        needs_answer = [answers or (len(it.turns) > turn and it.replay is None) for it in active]
        texts = iter(
            written(
                target,
                [tokens for tokens, need in zip(encoded, needs_answer, strict=True) if need],
                settings.sampling,
                settings.max_new_tokens,
                batch=settings.batch,
                folder=folder,
                on_text=on_text,
            )
        )
        for prompt, tokens, need in zip(active, encoded, needs_answer, strict=True):
            text = next(texts) if need else []
            if len(prompt.turns) > turn:
                assert target.tokenizer is not None, "a target without a tokenizer encoded a turn"
                answer = text_of(target.tokenizer, text, skip_special_tokens=True)
                conversations[prompt.id].append(answer)
            judges = judges_of(prompt, turn, settings.quality)
            question = Question(prompt.id, turn, prompt.category, tokens, text, judges)
            results[prompt.id, turn] = question
    keys = [(prompt.id, turn) for prompt in prompts for turn in range(1, len(prompt.turns) + 1)]
    return [replace(results[key], number=number) for number, key in enumerate(keys)]


def fit(target: Target, variants: Mapping[str, Variant]) -> None:
    """Prepares every variant for the target, before any model runs.

    Raises `ConfigError` if there are no variants, or one does not fit the target.
    """
    require(len(variants) > 0, "drafters", list(variants), "at least one")
    for variant in variants.values():
        prepare(target, variant.drafter, variant.verifier)


def measure(
    target: Target,
    variants: Mapping[str, Variant],
    questions: Sequence[Question],
    settings: Settings,
    *,
    protocol: str = "both",
    done: Sequence[Measurement] = (),
) -> Iterator[Measurement]:
    """Yields a measurement for each protocol, question and variant, as soon as it is made.

    A drafter that remembers texts begins each protocol and each repeat with an empty memory. At
    each question it remembers the questions before, in their order. The last that is yielded of a
    variant that fails is its error; the others go on from where they were, as a run does that is
    resumed, unless all that are left draft nothing.

    protocol: a key of `PROTOCOLS`.
    done: what was measured before, and is left out. What was learned from it is learned again, so
        that a run that goes on is the same as one that was not interrupted. Variants that differ in
        what is done are measured apart, each part beside plain decoding.

    Raises the `OutriderError` of the first variant that failed, at the end.
    """
    left, measured = dict(variants), [*done]
    first: OutriderError | None = None
    while first is None or any(not isinstance(each.drafter, NoDraft) for each in left.values()):
        try:
            for part in _parts(left, measured):
                own = [each for each in measured if each.drafter in part]
                for measurement in _measure_part(
                    target, part, questions, settings, PROTOCOLS[protocol], own
                ):
                    measured.append(measurement)
                    yield measurement
            break
        except Failure as failure:
            first = first or failure.error
            del left[failure.measurement.drafter]
            yield failure.measurement
    if first is not None:
        raise first


def _parts(
    variants: Mapping[str, Variant], done: Sequence[Measurement]
) -> list[dict[str, Variant]]:
    """Returns the variants, those together that were measured on the same questions."""
    parts: dict[frozenset[tuple[str, str, int]], dict[str, Variant]] = {}
    for name, variant in variants.items():
        known = frozenset((m.protocol, m.prompt, m.turn) for m in done if m.drafter == name)
        parts.setdefault(known, {})[name] = variant
    return [*parts.values()]


def _measure_part(  # noqa: PLR0917
    target: Target,
    variants: Mapping[str, Variant],
    questions: Sequence[Question],
    settings: Settings,
    protocols: Sequence[str],
    done: Sequence[Measurement],
) -> Iterator[Measurement]:
    known = {(m.protocol, m.prompt, m.turn) for m in done}
    for protocol in protocols:
        before = [each for each in questions if (protocol, each.prompt, each.turn) in known]
        left = [each for each in questions if (protocol, each.prompt, each.turn) not in known]
        if left and protocol == "overlap":
            _check_no_repeats(questions, variants, settings)
            remembering = {name: variant.with_own_memory() for name, variant in variants.items()}
            learners = [name for name, each in remembering.items() if each.drafter.remembers]
            for question, name in itertools.product(before, learners):
                with recording_failure_of(name, question):
                    remember(target, remembering[name], question, question.text)
            for question in left:
                yield from _measure_overlap(target, remembering, question, settings)
        elif left:
            by_repeat = [
                {name: variant.with_own_memory() for name, variant in variants.items()}
                for _ in range(settings.repeats)
            ]
            for group in groups(before, settings.together):
                learn_again(target, by_repeat, group, settings, done)
            warm_up(target, variants, left[: settings.together], settings)
            for group in groups(left, settings.together):
                yield from trials(target, by_repeat, group, settings)


def remember(target: Target, variant: Variant, question: Question, text: Sequence[int]) -> None:
    """Hands a text to a drafter that remembers texts; the target reads it once for its features."""
    known = reference(target, question.tokens, text, variant.drafter.needs)
    with calling("drafter", variant.drafter):
        variant.drafter.remember(known.before(len(text)))


def learn_again(
    target: Target,
    by_repeat: Sequence[Mapping[str, Variant]],
    questions: Sequence[Question],
    settings: Settings,
    done: Sequence[Measurement],
) -> None:
    """Has variants learn from questions that were decoded together what they had learned from them.

    A memory of texts is made of those on disk. What was learned from rounds is in no text: such a
    variant decodes the questions once more.

    done: the measurements of the texts.
    """
    texts = {
        (each.drafter, each.prompt, each.turn): [t for step in own.steps for t in step.tokens]
        for each in done
        if (own := each.decoding) is not None
    }
    for name, variant in by_repeat[0].items():
        with recording_failure_of(name, questions[0]):
            drafter, policy = variant.drafter, copy.deepcopy(variant.policy)
            if policy.learns or (drafter.remembers and drafter.observes):
                decoded(target, variant, questions, settings)
                for repeat in by_repeat[1:]:
                    again = replace(repeat[name], policy=copy.deepcopy(policy))
                    decoded(target, again, questions, settings)
            elif drafter.remembers:
                for variant in (repeat[name] for repeat in by_repeat):
                    with calling("drafter", variant.drafter):
                        variant.drafter.bind(target)  # as decoding does, in case it reads a file
                    for question in questions:
                        text = texts[name, question.prompt, question.turn]
                        remember(target, variant, question, text)


def groups(questions: Sequence[Question], size: int) -> Iterator[Sequence[Question]]:
    """Yields the questions that are decoded together."""
    for first in range(0, len(questions), size):
        yield questions[first : first + size]


def _check_no_repeats(
    questions: Sequence[Question], variants: Mapping[str, Variant], settings: Settings
) -> None:
    """Raises `ConfigError` if a drafter remembers texts and a prompt comes twice.

    Equal prompts have equal seeds, so the target would write the same sample again, and a drafter
    that remembers it would know every token. At temperature 0 that is allowed.
    """
    remembers = any(variant.drafter.remembers for variant in variants.values())
    if settings.sampling.greedy or not remembers:
        return
    known: dict[tuple[int, ...], str] = {}
    for question in questions:
        first = known.setdefault(tuple(question.tokens), question.prompt)
        require(first == question.prompt, "data", f"{first}, {question.prompt}", "no prompt twice")


def _measure_overlap(
    target: Target, variants: Mapping[str, Variant], question: Question, settings: Settings
) -> list[Measurement]:
    needs = frozenset[str]().union(*(variant.drafter.needs for variant in variants.values()))
    text, measured = reference(target, question.tokens, question.text, needs), list[Measurement]()
    chains = {
        name: it.drafter.autoregressive
        for name, it in variants.items()
        if not (it.drafter.trees or it.drafter.observes or it.drafter.asks)
    }
    recorder = Recorder(text, question.place, chains, settings.sampling, settings.keep)
    for name, variant in variants.items():
        with recording_failure_of(name, question):
            sums = overlap(
                text,
                variant.drafter,
                variant.verifier,
                settings.sampling,
                **variant.lengths(settings),
                policy=variant.policy,
                draft_timeout=settings.draft_timeout,
                note=partial(recorder.note, name) if settings.card else None,
            )
            if variant.drafter.remembers:
                with calling("drafter", variant.drafter):
                    variant.drafter.remember(text.before(len(question.text)))
        measured.append(Measurement(*question.place, name, overlap=sums))
    if settings.card is not None:
        recorder.save(settings.card / f"{question.number:05}.safetensors")
    return measured
