"""The recipe of REST's data store: texts of the target, or those of a data set as they are."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

from outrider.base.bounds import checked
from outrider.base.errors import ConfigError, require
from outrider.drafters.parts.texts.datastore import write_store
from outrider.drafters.rest import Rest
from outrider.extras.training.corpus import Split, TextRecipe
from outrider.extras.training.generated_texts import Text
from outrider.extras.training.one_step import write_fitted
from outrider.extras.training.recipe import Job


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
        began = time.monotonic()
        split = self.split(job) if self.answers else self._read(job)
        write_store(job.out, split.written(), job.target)
        drafter, facts = Rest(str(job.out)), {"answers": self.answers}
        write_fitted(job, drafter, split, family="rest", began=began, facts=facts)
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
