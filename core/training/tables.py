"""The recipe of the tables: n-grams are counted in texts that the target writes."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from outrider.drafter_parts.checkpoint import WEIGHTS
from outrider.drafter_parts.ngrams import NGramTable
from outrider.drafters.ngram import NGram
from outrider.errors import is_int, require
from outrider.terminal import plain
from outrider.training.card import write_card
from outrider.training.contamination import write_fingerprints
from outrider.training.corpus import split_texts
from outrider.training.drafters import measure_drafter
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
        drafter = NGram(self.order, str(path))
        figures = measure_drafter(job.target, drafter, split.held_out, job.gamma)
        facts = {
            "family": "unigram" if self.order == 1 else "bigram",
            "command": job.command,
            **split.facts(),
            "steps": 1,
            "seconds": round(time.monotonic() - began),
            "order": self.order,
            "temperatures": list(self.temperatures),
        }
        write_fingerprints(job.out, job.target, split.learned)
        write_card(job.out, facts, [{"step": 1.0, **figures}])
        line = ", ".join(f"{name} {value:.3f}" for name, value in figures.items())
        job.console.print(f"{facts['tokens']} tokens; on held-out texts {line}", highlight=False)
        job.console.print(plain(job.out), soft_wrap=True)
