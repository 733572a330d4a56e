"""The texts that a drafter learns from, written by its target and kept line by line."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import final

from outrider.base.bounds import Count
from outrider.base.contents import json_of
from outrider.base.errors import refusing, require
from outrider.base.folders import append_line, claimed, write_whole
from outrider.base.terminal import remark
from outrider.base.waiting import tracked
from outrider.contract.sampling import Sampling
from outrider.contract.target import Target
from outrider.data.prompts import Prompt
from outrider.extras.training.generated_texts import Text, Writing, write_texts
from outrider.extras.training.identity import identity, keep_facts
from outrider.extras.training.recipe import Job, Recipe
from outrider.extras.training.rows import read_rows
from outrider.plugins.fingerprint import hash_of
from outrider.targets.passes.cached_model import refuse_encoder

WRITTEN = ("ids", "start", "answer")
"""What a line says of a text that the target wrote."""


@final
@dataclass(frozen=True, slots=True)
class Split:
    """Texts to learn from, and texts that are held out to judge what was learned."""

    learned: list[Text]
    held_out: list[Text]

    def written(self) -> list[list[int]]:
        """Returns what the target wrote in the texts to learn from, in runs without a gap."""
        return [run for text in self.learned for run in text.written]

    def facts(self) -> dict[str, int]:
        """Returns the facts of a card: the number of texts, their tokens, and held-out texts."""
        return {
            "texts": len(self.learned),
            "tokens": sum(map(len, self.written())),
            "held-out texts": len(self.held_out),
        }


@dataclass(frozen=True, kw_only=True)
class TextRecipe(Recipe):
    """A recipe that learns from texts of the target.

    texts, held_out: the number of texts to learn from, and of those held out to judge the drafter.
    temperatures: of the target's answers, in turn.
    file: where the texts are kept, to train other drafters on them. Defaults to the run's folder.
    rows: a file or a folder of rows to learn from, as `outrider.extras.training.rows` reads them;
        the target then writes no texts. At most `texts` and `held_out` of them are used.
    """

    texts: Count
    held_out: Count
    temperatures: Sequence[float]
    file: str | None = None
    rows: str | None = None

    def split(self, job: Job) -> Split:
        """Returns a job's texts, which the target writes where the file lacks them.

        Raises `ConfigError` if the target has an encoder, or the file holds anything else.
        """
        refuse_encoder(job.target, " to learn from")
        corpus = self._written(job) if self.rows is None else self._given(job, self.rows)
        # The held-out texts come first, so they stay the same if more texts are asked for.
        return Split(corpus[self.held_out :], corpus[: self.held_out])

    def _written(self, job: Job) -> list[Text]:
        """Returns texts of the target, which it writes where the file lacks them."""
        seed = job.sampling.seed
        writing = Writing(
            chat=job.chat,
            openings=job.openings,
            question_tokens=job.question_tokens,
            samplings=[Sampling(temperature, seed=seed) for temperature in self.temperatures],
            max_new_tokens=job.max_new_tokens,
        )
        path = Path(self.file).expanduser() if self.file else job.folder / "texts.jsonl"
        count = self.held_out + self.texts
        return collect_texts(job.writer(), job.prompts, path, count, writing=writing)

    def _given(self, job: Job, rows: str) -> list[Text]:
        """Returns the texts in rows that the user has; a run continues only with the same ones."""
        require(not job.prompts, "recipe.rows", rows, "null with data, or rows without data")
        texts = read_rows(rows, job.target, self.held_out + self.texts)
        expected = f"more than the {self.held_out} rows that recipe.held_out keeps"
        require(len(texts) > self.held_out, "recipe.rows", rows, expected)
        keep_facts(job.folder / "rows.json", {"rows": hash_of([asdict(text) for text in texts])})
        return texts


def collect_texts(
    target: Target, prompts: Sequence[Prompt], path: Path, count: int, *, writing: Writing
) -> list[Text]:
    """Returns `count` texts of the target, from a file as far as it goes.

    What decides the texts stands beside their file; those without it are taken as they are.

    prompts: questions to answer, in turn. If there are none, the target writes its own.
    path: a file of JSON lines; new texts are added to it one by one. If another process writes to
        it, this one waits.

    Raises `ConfigError` if the file holds something else, or texts that were written in another
    way.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    origin = path.with_name(f"{path.name}.origin.json")
    facts = identity(asdict(writing), target, prompts)
    del facts["versions"]  # later versions may read the texts
    with claimed(path, wait=partial(remark, stderr=False)):
        if origin.is_file() or not path.is_file():
            keep_facts(origin, facts)
        texts = _read_texts(path)[:count]
        missing = range(len(texts), count)
        written = write_texts(target, prompts, missing, writing)
        for text in tracked(written, "The target writes", len(missing)):
            append_line(path, json.dumps({name: getattr(text, name) for name in WRITTEN}))
            texts.append(text)
    return texts


def _read_texts(path: Path) -> list[Text]:
    """Returns the texts in a file, and cuts off a last line that was not finished."""
    if not path.is_file():
        return []
    lines = path.read_text().splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):  # the run was killed; the line is written again
        write_whole(path, "".join(lines[:-1]))
        lines = lines[:-1]
    expected = "texts of the target, a JSON object per line"
    with refusing(f"{path}: expected {expected}", ValueError, TypeError):
        return [Text(**json_of(line)) for line in lines]
