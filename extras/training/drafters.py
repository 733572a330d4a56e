"""The recipes of drafters that learn from texts of their target: networks, tables and stores."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, final

from outrider.base.bounds import Count, checked
from outrider.base.errors import ConfigError, nearest, require
from outrider.base.terminal import remark
from outrider.contract.drafter import Drafter
from outrider.contract.sampling import Sampling
from outrider.contract.target import Target
from outrider.drafters.ngram import NGram
from outrider.drafters.parts.checkpoint import WEIGHTS
from outrider.drafters.parts.networks.vocabulary import count_tokens, frequent
from outrider.drafters.parts.texts.datastore import write_store
from outrider.drafters.parts.texts.ngrams import NGramTable
from outrider.drafters.rest import Rest
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
            learner, examples, held_out, schedule, folder=job.folder, evaluate=evaluate, log=job.log
        )
        learner.save_checkpoint(job.out)
        facts = {
            "vocabulary": len(vocabulary),
            "temperatures": list(self.temperatures),
            "schedule": dict(self.schedule),
            "options": dict(self.options),
        }
        write_result(job, split, curve, family=self.family, facts=facts)
        return {"drafter": self.family, learner.option: str(job.out)}

    def _examples(self, job: Job, split: Split, names: Sequence[str]) -> tuple[Examples, Examples]:
        """Returns the texts to learn from and those held out, with the target's states."""
        target, learned, held_out = job.target, split.learned, split.held_out
        if self.rows and (given := find_state_files([self.states, self.rows])):
            read = partial(read_state_files, target, names=names, folder=given)
            return read(learned), read(held_out)
        states = Path(self.states).expanduser() if self.states else job.folder / "states"
        return (
            compute_states(target, learned, names, states / "learned"),
            compute_states(target, held_out, names, states / "held_out"),
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


def write_fitted(
    job: Job, drafter: Drafter, split: Split, *, family: str, facts: Mapping[str, Any]
) -> None:
    """Measures what was made on the held-out texts, prints the figures, and writes its card."""
    figures = measure_drafter(job.target, drafter, split.held_out, job.gamma)
    job.log(figures, 1)
    line = ", ".join(f"{name} {value:.3f}" for name, value in figures.items())
    tokens = split.facts()["tokens"]
    remark(f"{tokens} tokens; on held-out texts {line}", stderr=False)
    write_result(job, split, [{"step": 1.0, **figures}], family=family, facts=facts)


@final
@checked("recipe")
@dataclass(frozen=True, kw_only=True)
class TableRecipe(TextRecipe):
    """Counts n-grams up to `order` in the target's texts, and writes the table with a card."""

    order: Count

    def __call__(self, job: Job) -> Mapping[str, Any]:
        split = self.split(job)
        path = job.out / WEIGHTS
        written = split.written()
        NGramTable.fit(written, self.order, job.target.vocab_size).save(path)
        family = "unigram" if self.order == 1 else "bigram"
        drafter = NGram(self.order, str(path))
        facts = {"order": self.order, "temperatures": list(self.temperatures)}
        write_fitted(job, drafter, split, family=family, facts=facts)
        return {"drafter": family, "counts": str(path)}


@final
@checked("recipe")
@dataclass(frozen=True, kw_only=True)
class StoreRecipe(TextRecipe):
    """Writes a store of texts, with a card.

    answers: whether to store texts that the target writes. If not, all texts of the data set are
        stored except those held out: the turns of its prompts, and the answers beside them.
    """

    answers: bool

    def __call__(self, job: Job) -> Mapping[str, Any]:
        split = self.split(job) if self.answers else self._read(job)
        write_store(job.out, split.written(), job.target)
        drafter, facts = Rest(str(job.out)), {"answers": self.answers}
        write_fitted(job, drafter, split, family="rest", facts=facts)
        return {"drafter": "rest", "path": str(job.out)}

    def _read(self, job: Job) -> Split:
        """Returns the texts of the data set. Of those held out, the second half is the answer."""
        if job.target.tokenizer is None:
            raise ConfigError("recipe.answers=False: expected true, the target has no tokenizer")
        texts = [
            text
            for prompt in job.prompts
            for text in (*prompt.turns, *(answer for row in prompt.references for answer in row))
        ]
        is_fewer = self.held_out < len(texts)
        expected = f"fewer than the {len(texts)} texts of the data set"
        require(is_fewer, "recipe.held_out", self.held_out, expected)
        rows = job.target.tokenizer(texts, add_special_tokens=False, verbose=False)["input_ids"]
        read = [Text(list(ids), 0, max(1, len(ids) // 2)) for ids in rows if len(ids)]
        return Split(read[self.held_out :], read[: self.held_out])
