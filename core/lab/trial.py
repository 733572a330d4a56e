"""Trial: questions decoded by one entrant, its clock set beside plain decoding's."""

import copy
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any, final

from outrider.contract.chance import SampledChance
from outrider.contract.drafter import Drafter
from outrider.contract.policy import Fixed, Policy
from outrider.contract.sampling import Sampling
from outrider.contract.target import Target
from outrider.contract.verifier import Verifier
from outrider.decoding.decode import decode, decode_together, prepare
from outrider.decoding.generation import Generation
from outrider.decoding.run import check_lengths
from outrider.drafters.none import NoDraft
from outrider.errors import is_int, require
from outrider.lab.measurement import Decoding, Step
from outrider.lab.texts import seed, seeded
from outrider.verifiers.token import Token

WARM_UP = 8
"""Tokens that are decoded before the clock starts."""


@final
@dataclass(frozen=True, slots=True)
class Settings:
    """How every text is written; see `outrider.decode`.

    batch: how many texts the target writes at once where only the text is wanted.
    together: how many are decoded at once; each has its share of the clock.

    Raises `ConfigError` for a length that makes no sense.
    """

    gamma: int = 5
    budget: int | None = None
    sampling: Sampling = field(default_factory=Sampling)
    max_new_tokens: int = 128
    batch: int = 16
    together: int = 1

    def __post_init__(self) -> None:
        check_lengths(self.gamma, self.budget, self.max_new_tokens)
        for name in ("batch", "together"):
            count = getattr(self, name)
            require(is_int(count) and count >= 1, name, count, "a whole number of at least 1")


@final
@dataclass(frozen=True, slots=True)
class Entrant:
    """What is compared: a drafter, the rule that judges it, and how long it drafts."""

    drafter: Drafter
    verifier: Verifier
    policy: Policy = field(default_factory=Fixed)


@final
@dataclass(frozen=True, slots=True)
class Question:
    """A turn of a conversation, ready for decoding.

    prompt: the conversation's id. turn: from 1. tokens: the ids up to the answer. text: the
    target's own answer, empty where no protocol asks for it.
    """

    prompt: str
    turn: int
    category: str
    tokens: list[int]
    text: list[int] = field(default_factory=list)


def plain(target: Target, questions: Sequence[Question], settings: Settings) -> list[Generation]:
    """Returns the questions decoded without a draft, by the same loop and as many at once."""
    return _decoded(target, Entrant(NoDraft(), Token()), questions, settings)


def warm_up(target: Target, question: Question, settings: Settings) -> None:
    """Decodes a few tokens, so that no clock counts what happens only once."""
    few = replace(settings, max_new_tokens=min(WARM_UP, settings.max_new_tokens))
    plain(target, [question], few)


def trial(
    target: Target,
    entrant: Entrant,
    questions: Sequence[Question],
    settings: Settings,
    baselines: Sequence[Generation],
) -> list[Decoding]:
    """Returns how the entrant decodes some questions at once.

    baselines: what `plain` gave on them, just before; they are the result where there is no draft.
    """
    runs = baselines
    if not isinstance(entrant.drafter, NoDraft):
        runs = _decoded(target, entrant, questions, settings)
    return [_beside(run, baseline) for run, baseline in zip(runs, baselines, strict=True)]


def _beside(run: Generation, baseline: Generation) -> Decoding:
    # The first call reads the prompt.
    calls = [round.seconds["score"] for round in baseline.rounds[1:] or baseline.rounds]
    return Decoding(
        steps=tuple(map(Step.of, run.rounds)),
        seconds=run.total_seconds,
        plain_seconds=baseline.total_seconds / len(baseline.tokens),
        plain_call=statistics.median(calls),
    )


def _decoded(
    target: Target, entrant: Entrant, questions: Sequence[Question], settings: Settings
) -> list[Generation]:
    lengths: dict[str, Any] = {
        "gamma": settings.gamma,
        "budget": settings.budget,
        "max_new_tokens": settings.max_new_tokens,
    }
    if len(questions) == 1:
        tokens, generation = questions[0].tokens, Generation()
        sampling = seeded(settings.sampling, tokens)
        drafter, rule, policy = entrant.drafter, entrant.verifier, entrant.policy
        for round in decode(
            target, drafter, rule, tokens, sampling=sampling, policy=policy, **lengths
        ):
            generation.add(round)
        return [generation]
    prepare(target, entrant.drafter, entrant.verifier)
    generations, began = [Generation() for _ in questions], perf_counter()
    for number, round in decode_together(
        target,
        [entrant.drafter.fork() for _ in questions],
        entrant.verifier,
        [question.tokens for question in questions],
        sampling=settings.sampling,
        policies=[copy.deepcopy(entrant.policy) for _ in questions],
        chances=[
            SampledChance.seeded(seed(settings.sampling, question.tokens)) for question in questions
        ],
        **lengths,
    ):
        generations[number].add(round)
    _share(generations, perf_counter() - began)
    return generations


def _share(generations: Sequence[Generation], seconds: float) -> None:
    """Gives each text of a batch the part of its seconds that the text's own phases are."""
    own = [sum(sum(round.seconds.values()) for round in each.rounds) for each in generations]
    for each, spent in zip(generations, own, strict=True):
        each.total_seconds = seconds * spent / sum(own)
