"""The recipe of the networks: a drafter learns from texts that its target writes and reads."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from outrider.base.bounds import Count, checked
from outrider.base.errors import ConfigError, nearest
from outrider.contract.drafter import Drafter
from outrider.contract.sampling import Sampling
from outrider.contract.target import Target
from outrider.drafters.parts.networks.vocabulary import count_tokens, frequent
from outrider.extras.training.card import write_result
from outrider.extras.training.corpus import Split, TextRecipe
from outrider.extras.training.generated_texts import Text
from outrider.extras.training.learner import Setup, make_learner
from outrider.extras.training.loop import train_network
from outrider.extras.training.progress import Figures, Schedule
from outrider.extras.training.recipe import Job
from outrider.extras.training.speculators_data import (
    FREQUENCIES,
    find_state_files,
    read_frequencies,
    read_state_files,
)
from outrider.extras.training.states import Examples, compute_states
from outrider.lab.measuring.overlap import overlap
from outrider.lab.measuring.reference import reference
from outrider.plugins.parts import make
from outrider.plugins.registry import installed
from outrider.verifiers.token import Token

JUDGED = 6
"""The number of held-out texts on which alpha is measured during training."""
ANSWER_TOKENS = 48
"""The number of tokens that are measured in each of these texts."""


@final
@checked("recipe")
@dataclass(frozen=True, kw_only=True)
class DrafterRecipe(TextRecipe):
    """Trains the drafter of that name on texts of the target, and writes it with a card.

    A run that was interrupted continues from its last evaluation if it is given the same folder.

    family: the drafter, by its registered name.
    objective: where its `outrider.extras.training.learner.Objective` is, as "module:class".
    vocabulary: the number of tokens that the drafter knows, the most frequent ones; None for all.
    schedule: the fields of `outrider.extras.training.progress.Schedule`.
    options: the fields of the objective.
    states: the folder where the target's states are kept, or of files with them that speculators
        wrote for the `rows`. Defaults to the rows' own, or to one in the run's folder.
    """

    family: str
    objective: str
    vocabulary: Count | None
    schedule: Mapping[str, Any]
    options: Mapping[str, Any]
    states: str | None = None

    def __post_init__(self) -> None:
        known = installed().of("drafter")
        if self.family not in known:
            raise ConfigError(f"recipe.family={self.family!r}: {nearest(self.family, known)}")

    def __call__(self, job: Job) -> Mapping[str, Any]:
        schedule = Schedule(**{"seed": job.sampling.seed or 0, **self.schedule})
        began = time.monotonic()
        split = self.split(job)
        size = job.target.vocab_size
        known = Path(self.rows or "").expanduser() / FREQUENCIES
        if self.rows and known.is_file():
            counts = read_frequencies(known, size)
        else:
            counts = count_tokens(split.written(), size)
        vocabulary = frequent(counts, self.vocabulary or size)
        setup = Setup(job.target, vocabulary, job.sampling.seed or 0)
        learner = make_learner(self.objective, self.options, setup)
        examples, held_out = self._examples(job, split, learner.reads)
        latest = job.folder / "latest"

        def evaluate() -> Figures:
            learner.save_checkpoint(latest)
            drafter = make("drafter", self.family, **{learner.option: str(latest)})
            return measure_drafter(job.target, drafter, split.held_out, job.gamma)

        curve = train_network(
            learner,
            examples,
            held_out,
            schedule,
            folder=job.folder,
            console=job.console,
            evaluate=evaluate,
            log=job.log,
        )
        learner.save_checkpoint(job.out)
        facts = {
            "vocabulary": len(vocabulary),
            "temperatures": list(self.temperatures),
            "schedule": dict(self.schedule),
            "options": dict(self.options),
        }
        write_result(job, split, curve, family=self.family, began=began, facts=facts)
        return {"drafter": self.family, learner.option: str(job.out)}

    def _examples(self, job: Job, split: Split, names: Sequence[str]) -> tuple[Examples, Examples]:
        """Returns the texts to learn from and those held out, with the target's states."""
        target, learned, held_out = job.target, split.learned, split.held_out
        if given := find_state_files([self.states, self.rows]):
            # The rows held out are the first ones.
            of_learned = read_state_files(target, learned, names, given, len(held_out))
            return of_learned, read_state_files(target, held_out, names, given, 0)
        states = Path(self.states).expanduser() if self.states else job.folder / "states"
        return (
            compute_states(target, learned, names, states / "learned", job.console),
            compute_states(target, held_out, names, states / "held_out", job.console),
        )


def measure_drafter(
    target: Target, drafter: Drafter, held_out: Sequence[Text], gamma: int
) -> Figures:
    """Returns alpha and the expected block efficiency along held-out answers, at temperature 1."""
    drafter.bind(target)
    overlaps, rounds, prefixes, tokens = 0.0, 0.0, 0.0, 0.0
    for text in held_out[:JUDGED]:
        answer = text.ids[text.answer : text.answer + ANSWER_TOKENS]
        if answer:
            known = reference(target, text.ids[: text.answer], answer, drafter.needs)
            measured = overlap(known, drafter, Token(), Sampling(temperature=1.0), gamma)
            overlaps, prefixes = overlaps + measured.beta[0], prefixes + measured.prefixes[0]
            rounds += measured.rounds[-1]
            tokens += measured.accepted[-1] + measured.rounds[-1]
    return {"alpha": overlaps / (prefixes or 1), "block_efficiency": tokens / (rounds or 1)}
