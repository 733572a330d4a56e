"""The recipe of the tables: n-grams counted in texts that the target writes."""

import time
from collections.abc import Sequence

from outrider.drafter_parts.checkpoint import WEIGHTS
from outrider.drafter_parts.ngrams import NGramTable
from outrider.drafters.ngram import NGram
from outrider.errors import is_int, require
from outrider.training import contamination
from outrider.training.card import card, learned_from
from outrider.training.corpus import split
from outrider.training.drafters import figures
from outrider.training.job import Job


def train(
    job: Job,
    *,
    order: int,
    texts: int,
    held_out: int,
    temperatures: Sequence[float],
    batch_texts: int,
    file: str | None = None,
) -> None:
    """Counts n-grams up to `order` in the target's texts, and writes the table.

    texts, held_out, temperatures, batch_texts, file: see `outrider.training.drafters.train`.

    Raises:
        ConfigError: a setting makes no sense.
    """
    good = is_int(order) and order >= 1
    require(good, "recipe.order", order, "a whole number of at least 1")
    began = time.monotonic()
    own, held = split(
        job,
        texts=texts,
        held_out=held_out,
        temperatures=temperatures,
        batch_texts=batch_texts,
        file=file,
    )
    job.out.mkdir(parents=True, exist_ok=True)
    place = job.out / WEIGHTS
    tokens = [text.ids[text.start :] for text in own]
    NGramTable.fit(tokens, order, job.target.vocab_size).save(place)
    found = figures(job.target, NGram(order, str(place)), held, job.gamma)
    facts = {
        "family": "unigram" if order == 1 else "bigram",
        "command": job.command,
        **learned_from(own, held),
        "steps": 1,
        "seconds": round(time.monotonic() - began),
        "order": order,
        "temperatures": list(temperatures),
    }
    contamination.write(job.out, job.target, own)
    card(job.out, facts, [{"step": 1.0, **found}])
    said = ", ".join(f"{name} {value:.3f}" for name, value in found.items())
    job.console.print(f"{facts['tokens']} tokens; on held-out texts {said}", highlight=False)
    job.console.print(str(job.out), soft_wrap=True)
