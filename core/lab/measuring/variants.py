"""What is compared, on which questions, and under which settings."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, final

from outrider.base.calling import calling
from outrider.base.errors import ConfigError, require
from outrider.contract.drafter import Drafter
from outrider.contract.policy import Fixed, Policy
from outrider.contract.sampling import Sampling
from outrider.contract.target import Target
from outrider.contract.verifier import Verifier
from outrider.data.prompts import Prompt
from outrider.data.score import Judge, Score
from outrider.drafters.none import NoDraft
from outrider.verifiers.token import Token


@final
@dataclass(frozen=True, slots=True)
class Settings:
    """How every text is written; see `outrider.decode`.

    batch: how many texts the target writes at once when only the text is needed.
    together: how many questions are decoded at once; each gets its share of the seconds.
    repeats: how often everything is decoded; the repeat with the median seconds counts.
    draft_timeout: the most seconds that a drafter may take for a draft; None for no limit.
    quality: the scores that texts are given, by name.
    card, keep: the folder that keeps the distributions along texts, if any, and how many tokens of
        each; None for all.

    The settings of a command are in their bounds when they are read.
    """

    gamma: int = 5
    budget: int | None = None
    sampling: Sampling = field(default_factory=Sampling)
    max_new_tokens: int = 128
    batch: int = 16
    together: int = 1
    repeats: int = 1
    draft_timeout: float | None = None
    quality: Mapping[str, Score] = field(default_factory=dict)
    card: Path | None = None
    keep: int | None = None


@final
@dataclass(frozen=True, slots=True)
class Variant:
    """What is compared: a drafter, with its acceptance rule and its policy.

    gamma, budget: its own, in place of those of all. Default to None.
    """

    drafter: Drafter
    verifier: Verifier
    policy: Policy = field(default_factory=Fixed)
    gamma: int | None = None
    budget: int | None = None

    def lengths(self, settings: Settings) -> dict[str, Any]:
        """Returns the gamma and the budget that it runs with."""
        return {"gamma": self.gamma or settings.gamma, "budget": self.budget or settings.budget}

    def with_own_memory(self) -> "Variant":
        """Returns the variant with an empty memory and a copy of its policy, which learns."""
        policy = copy.deepcopy(self.policy)
        if not self.drafter.remembers:
            return replace(self, policy=policy)
        drafter = copy.copy(self.drafter.open())
        drafter.forget()
        return replace(self, drafter=drafter, policy=policy)


PLAIN = Variant(NoDraft(), Token())
"""Decodes without drafts, by the same loop."""

PLAIN_NAME = "plain decoding"


@final
@dataclass(frozen=True, slots=True)
class Question:
    """A turn of a conversation, ready for decoding.

    prompt: the conversation's id. turn: its number, from 1. tokens: the ids up to the answer.
    text: the target's own answer; empty if no protocol needs it.
    judges: what gives an answer its scores, by name.
    number: how many questions come before it in the run.
    """

    prompt: str
    turn: int
    category: str
    tokens: list[int]
    text: list[int] = field(default_factory=list)
    judges: Mapping[str, Judge] = field(default_factory=dict)
    number: int = 0

    @property
    def place(self) -> tuple[str, int, str]:
        """Returns the prompt, the turn and the category, as a measurement begins."""
        return self.prompt, self.turn, self.category


def ids_asked(target: Target, prompt: Prompt, said: Sequence[str], *, chat: bool) -> list[int]:
    """Returns the ids of a turn of a prompt, with all that comes before it.

    said: the turns up to it, each but the last followed by its answer.

    Raises `ConfigError` if the target can't take it; the message names the prompt and the turn.
    """
    turn = len(said) // 2 + 1  # every other entry is an answer
    try:
        with calling("target", target):
            if (replay := prompt.replay) is None:
                return target.encode_turns(said, chat=chat)
            require(chat, "chat", chat, "true, for a conversation with tools")
            return target.encode(replay.messages[: replay.ends[turn - 1]], tools=replay.tools)
    except ConfigError as error:
        raise ConfigError(f"data: prompt {prompt.id}, turn {turn}: {error}") from error
