"""The recipe of REST's data store: texts of the target, or those of a data set as they are."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from outrider.drafter_parts.datastore import write_store
from outrider.drafters.rest import Rest
from outrider.errors import ConfigError, is_int, require
from outrider.training.corpus import Split, split_texts
from outrider.training.fitted import write_fitted
from outrider.training.job import Job
from outrider.training.writing import Text


@final
@dataclass(frozen=True, kw_only=True)
class StoreRecipe:
    """Writes a store of texts, with a card.

    answers: whether to store what the target writes, or else all texts of the data set: the turns
        of its prompts, and the answers beside them.
    texts, held_out, temperatures, batch_texts, file: see
        `outrider.training.drafters.DrafterRecipe`. All texts of a data set but those held out are
        stored.
    """

    answers: bool
    texts: int
    held_out: int
    temperatures: Sequence[float]
    batch_texts: int
    file: str | None = None

    def __call__(self, job: Job) -> None:
        """Writes the store.

        Raises:
            ConfigError: a setting makes no sense, or the data set has too few texts.
        """
        began = time.monotonic()
        split = self._written(job) if self.answers else self._read(job)
        write_store(job.out, [text.ids[text.start :] for text in split.learned], job.target)
        drafter, facts = Rest(str(job.out)), {"answers": self.answers}
        write_fitted(job, drafter, split, family="rest", began=began, facts=facts)

    def _written(self, job: Job) -> Split:
        return split_texts(
            job,
            texts=self.texts,
            held_out=self.held_out,
            temperatures=self.temperatures,
            batch_texts=self.batch_texts,
            file=self.file,
        )

    def _read(self, job: Job) -> Split:
        """Returns the texts of the data set. Of those held out, the second half is the answer."""
        is_valid = is_int(self.held_out) and self.held_out >= 1
        require(is_valid, "recipe.held_out", self.held_out, "a whole number of at least 1")
        if job.target.tokenizer is None:
            raise ConfigError("recipe.answers=False: expected true, the target has no tokenizer")
        texts = [
            text
            for prompt in job.prompts
            for text in (*prompt.turns, *(answer for row in prompt.references for answer in row))
        ]
        if len(texts) <= self.held_out:
            raise ConfigError(
                f"data: {len(texts)} texts: expected more than the {self.held_out} held out"
            )
        rows = job.target.tokenizer(texts, add_special_tokens=False, verbose=False)["input_ids"]
        read = [Text(list(ids), 0, max(1, len(ids) // 2)) for ids in rows if len(ids)]
        return Split(read[self.held_out :], read[: self.held_out])
