"""The recipe of the tables: n-grams are counted in texts that the target writes."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

from outrider.base.bounds import Count, checked
from outrider.drafters.ngram import NGram
from outrider.drafters.parts.checkpoint import WEIGHTS
from outrider.drafters.parts.texts.ngrams import NGramTable
from outrider.extras.training.corpus import TextRecipe
from outrider.extras.training.one_step import write_fitted
from outrider.extras.training.recipe import Job


@final
@checked("recipe")
@dataclass(frozen=True, kw_only=True)
class TableRecipe(TextRecipe):
    """Counts n-grams up to `order` in the target's texts, and writes the table with a card."""

    order: Count

    def __call__(self, job: Job) -> Mapping[str, Any]:
        began = time.monotonic()
        split = self.split(job)
        job.out.mkdir(parents=True, exist_ok=True)
        path = job.out / WEIGHTS
        written = split.written()
        NGramTable.fit(written, self.order, job.target.vocab_size).save(path)
        family = "unigram" if self.order == 1 else "bigram"
        drafter = NGram(self.order, str(path))
        facts = {"order": self.order, "temperatures": list(self.temperatures)}
        write_fitted(job, drafter, split, family=family, began=began, facts=facts)
        return {"drafter": family, "counts": str(path)}
