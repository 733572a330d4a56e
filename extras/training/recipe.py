"""Trains a part with what `outrider train` hands to it, a job."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, final

from outrider.base.waiting import tracked
from outrider.contract.drafter import Drafter
from outrider.contract.policy import Fixed, Policy
from outrider.contract.round import Round
from outrider.contract.sampling import Sampling
from outrider.contract.target import Target
from outrider.contract.verifier import Verifier
from outrider.data.prompts import Prompt
from outrider.decoding.decode import decode
from outrider.lab.measuring.texts import seeded

Log = Callable[[Mapping[str, float], int], None]


@final
@dataclass(frozen=True, slots=True)
class Job:
    """What `outrider train` hands to a recipe.

    writer: returns the target that writes the texts: the same one, or with other settings.
    drafter: makes the drafter of the run.
    prompts: questions for the target to answer; if there are none, the target writes its own.
    openings: how the target's own questions begin.
    question_tokens: the most tokens that the target adds to an opening.
    command: the command that trains the same again, without the settings that name folders.
    origin: facts for the card: for which target, when, where and by which versions.
    folder: the run's folder, for what the recipe keeps on the way.
    draft_timeout: the most seconds that a drafter may take for a draft; None for no limit.
    out: the file or folder to write, without a suffix; the recipe adds its own.
    log: takes figures by name, and the step of training, for the reports that follow the run.
    began: when it was made, by `time.monotonic`.
    """

    target: Target
    writer: Callable[[], Target]
    drafter: Callable[[], Drafter]
    verifier: Verifier
    sampling: Sampling
    prompts: Sequence[Prompt]
    chat: bool
    openings: Sequence[str]
    question_tokens: int
    gamma: int
    max_new_tokens: int
    draft_timeout: float | None
    command: str
    origin: Mapping[str, str]
    folder: Path
    out: Path
    log: Log
    began: float = field(default_factory=time.monotonic)

    def decoded(
        self, drafter: Drafter, policy: Callable[[int], Policy] = lambda _: Fixed()
    ) -> Iterator[tuple[int, Round]]:
        """Yields the rounds in which each prompt is answered, with the prompt's number, from 0.

        policy: returns the one for a prompt.
        """
        for number, prompt in enumerate(tracked(self.prompts, "Decoding", len(self.prompts))):
            text = self.target.encode_turns(prompt.turns[:1], chat=self.chat)
            for round in decode(
                self.target,
                drafter,
                self.verifier,
                text,
                gamma=self.gamma,
                sampling=seeded(self.sampling, text),
                policy=policy(number),
                max_new_tokens=self.max_new_tokens,
                draft_timeout=self.draft_timeout,
            ):
                yield number, round


class Recipe(ABC):
    """Trains a part with what a job hands to it; the kit finds `checks` of its kind."""

    checks: ClassVar[str] = "outrider.extras.training.recipe_checks:CHECKS"

    @abstractmethod
    def __call__(self, job: Job) -> Mapping[str, Any]:
        """Trains, writes what it trained, and reports how well that does.

        Returns the part that it made, as `outrider.plugins.parts.make` takes it: its role and
        name, and the settings that load it, such as
        {"drafter": "bigram", "counts": "trained/model.safetensors"}.

        Raises `ConfigError` if what is on disk belongs to other settings.
        """
