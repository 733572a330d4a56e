"""The recipe of the tables: n-grams are counted in texts that the target writes."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from outrider.drafter_parts.checkpoint import WEIGHTS
from outrider.drafter_parts.ngrams import NGramTable
from outrider.drafters.ngram import NGram
from outrider.errors import is_int, require
from outrider.training.corpus import split_texts
from outrider.training.fitted import write_fitted
from outrider.training.job import Job


@final
@dataclass(frozen=True, kw_only=True)
class TableRecipe:
    """Counts n-grams up to `order` in the target's texts, and writes the table with a card.

    texts, held_out, temperatures, batch_texts, file: see
        `outrider.training.drafters.DrafterRecipe`.
    """

    order: int
    texts: int
    held_out: int
    temperatures: Sequence[float]
    batch_texts: int
    file: str | None = None

    def __call__(self, job: Job) -> None:
        """Counts.

        Raises:
            ConfigError: a setting makes no sense.
        """
        is_valid = is_int(self.order) and self.order >= 1
        require(is_valid, "recipe.order", self.order, "a whole number of at least 1")
        began = time.monotonic()
        split = split_texts(
            job,
            texts=self.texts,
            held_out=self.held_out,
            temperatures=self.temperatures,
            batch_texts=self.batch_texts,
            file=self.file,
        )
        job.out.mkdir(parents=True, exist_ok=True)
        path = job.out / WEIGHTS
        written = [text.ids[text.start :] for text in split.learned]
        NGramTable.fit(written, self.order, job.target.vocab_size).save(path)
        family = "unigram" if self.order == 1 else "bigram"
        drafter = NGram(self.order, str(path))
        facts = {"order": self.order, "temperatures": list(self.temperatures)}
        write_fitted(job, drafter, split, family=family, began=began, facts=facts)
