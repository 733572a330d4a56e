"""The recipe of the tables: n-grams counted in texts that the target writes."""

from collections.abc import Sequence
from pathlib import Path

from outrider.drafters.ngram import NGram
from outrider.errors import require, whole
from outrider.ngrams import NGramTable
from outrider.sampling import Sampling
from outrider.training.corpus import corpus
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
    for name, value in (("order", order), ("texts", texts), ("held_out", held_out)):
        good = whole(value) and value >= 1
        require(good, f"recipe.{name}", value, "a whole number of at least 1")
    written = corpus(
        job.target,
        job.prompts,
        Path(file).expanduser() if file else job.folder / "texts.jsonl",
        count=texts + held_out,
        chat=job.chat,
        samplings=[Sampling(temperature=each, seed=job.sampling.seed) for each in temperatures],
        max_new_tokens=job.max_new_tokens,
        batch=batch_texts,
        console=job.console,
    )
    own = [text.ids[text.start :] for text in written[:-held_out]]
    place = job.out.with_suffix(".safetensors")
    place.parent.mkdir(parents=True, exist_ok=True)
    NGramTable.fit(own, order, job.target.vocab_size).save(place)
    drafter = NGram(order, str(place))
    found = figures(job.target, drafter, written[-held_out:], job.gamma)
    said = ", ".join(f"{name} {value:.3f}" for name, value in found.items())
    job.console.print(f"{sum(map(len, own))} tokens; on held-out texts {said}", highlight=False)
    job.console.print(str(place), soft_wrap=True)
