"""Trial: one question decoded by one entrant, its clock set beside plain decoding's."""

import statistics
from dataclasses import dataclass, field
from typing import final

from outrider.decoding import check_lengths, decode
from outrider.drafter import Drafter
from outrider.drafters.none import NoDraft
from outrider.errors import require, whole
from outrider.generation import Generation
from outrider.lab.measurement import Decoding, Step
from outrider.lab.texts import seeded
from outrider.lookahead import Fixed, Lookahead
from outrider.sampling import Sampling
from outrider.target import Target
from outrider.verifier import Verifier
from outrider.verifiers.token import Token

WARM_UP = 8
"""Tokens that are decoded before the clock starts."""


@final
@dataclass(frozen=True, slots=True)
class Settings:
    """How every text is written; see `outrider.decode`.

    batch: how many texts the target writes at once where only the text is wanted.

    Raises `ConfigError` for a length that makes no sense.
    """

    gamma: int = 5
    budget: int | None = None
    sampling: Sampling = field(default_factory=Sampling)
    max_new_tokens: int = 128
    batch: int = 16

    def __post_init__(self) -> None:
        check_lengths(self.gamma, self.budget, self.max_new_tokens)
        some = whole(self.batch) and self.batch >= 1
        require(some, "batch", self.batch, "a whole number of at least 1")


@final
@dataclass(frozen=True, slots=True)
class Entrant:
    """What is compared: a drafter, the rule that judges it, and how long it drafts."""

    drafter: Drafter
    verifier: Verifier
    lookahead: Lookahead = field(default_factory=Fixed)


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


def plain(target: Target, question: Question, settings: Settings) -> Generation:
    """Returns the question decoded without a draft, by the same loop."""
    return _decoded(target, Entrant(NoDraft(), Token()), question, settings)


def warm_up(target: Target, question: Question, settings: Settings) -> None:
    """Decodes a few tokens, so that no clock counts what happens only once."""
    _decoded(target, Entrant(NoDraft(), Token()), question, settings, WARM_UP)


def trial(
    target: Target,
    entrant: Entrant,
    question: Question,
    settings: Settings,
    baseline: Generation,
) -> Decoding:
    """Returns how the entrant decodes the question.

    baseline: what `plain` gave on it, just before; it is the result where there is no draft.
    """
    run = baseline
    if not isinstance(entrant.drafter, NoDraft):
        run = _decoded(target, entrant, question, settings)
    # The first call reads the prompt.
    calls = [round.seconds["score"] for round in baseline.rounds[1:] or baseline.rounds]
    return Decoding(
        steps=tuple(map(Step.of, run.rounds)),
        seconds=run.total_seconds,
        plain_seconds=baseline.total_seconds / len(baseline.tokens),
        plain_call=statistics.median(calls),
    )


def _decoded(
    target: Target,
    entrant: Entrant,
    question: Question,
    settings: Settings,
    tokens: int | None = None,
) -> Generation:
    rounds = decode(
        target,
        entrant.drafter,
        entrant.verifier,
        question.tokens,
        gamma=settings.gamma,
        budget=settings.budget,
        sampling=seeded(settings.sampling, question.tokens),
        lookahead=entrant.lookahead,
        max_new_tokens=settings.max_new_tokens if tokens is None else tokens,
    )
    generation = Generation()
    for round in rounds:
        generation.add(round)
    return generation
