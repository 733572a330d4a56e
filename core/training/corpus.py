"""Corpus: texts that the target writes for its drafter to learn from, kept line by line."""

import itertools
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import final

from rich.console import Console
from rich.progress import track

from outrider.contract.chance import SampledChance
from outrider.contract.sampling import Sampling
from outrider.contract.target import Target
from outrider.errors import ConfigError, is_int, require
from outrider.lab.texts import seed
from outrider.prompts import Prompt
from outrider.runtime.cached_model import SOURCE
from outrider.training.job import Job

PLACE = "\0here\0"
"""Stands for a user's words in the chat template, to find what goes before and behind them."""

TOGETHER = 96
"""Answers written at once."""


@final
@dataclass(frozen=True, slots=True)
class Text:
    """What is learned from.

    ids: a whole text. start: the place of the first id that the target wrote. answer: that of the
        first id of its answer.
    """

    ids: list[int]
    start: int
    answer: int


def split(
    job: Job,
    *,
    texts: int,
    held_out: int,
    temperatures: Sequence[float],
    batch_texts: int,
    file: str | None,
) -> tuple[list[Text], list[Text]]:
    """Returns a job's texts to learn from, and those that are held out.

    temperatures: of the answers, in turn. file: where they are kept; in the run's folder if none.

    Raises:
        ConfigError: there would be none of either, or the target has an encoder.
    """
    kind = type(job.target.model).__name__
    require(SOURCE not in job.target.offers, "target", kind, "a decoder-only model to learn from")
    for name, value in (("texts", texts), ("held_out", held_out)):
        good = is_int(value) and value >= 1
        require(good, f"recipe.{name}", value, "a whole number of at least 1")
    written = corpus(
        job.target,
        job.prompts,
        Path(file).expanduser() if file else job.folder / "texts.jsonl",
        count=texts + held_out,
        chat=job.chat,
        openings=job.openings,
        question_tokens=job.question_tokens,
        samplings=[Sampling(temperature=each, seed=job.sampling.seed) for each in temperatures],
        max_new_tokens=job.max_new_tokens,
        batch=batch_texts,
        console=job.console,
    )
    # Those held out come first, so that more texts are no other split.
    return written[held_out:], written[:held_out]


def corpus(
    target: Target,
    prompts: Sequence[Prompt],
    place: Path,
    *,
    count: int,
    chat: bool,
    openings: Sequence[str] = ("",),
    question_tokens: int,
    samplings: Sequence[Sampling],
    max_new_tokens: int,
    batch: int,
    console: Console,
) -> list[Text]:
    """Returns `count` texts of the target, as many as possible out of `place`.

    Without prompts the target writes the questions too: it starts at the chat template's user
    turn, or where there is none at a single token, its end of text.

    place: a file of JSON lines; what is new is added as its batch is done.
    openings: how questions begin that the target writes, in turn, so that they are of all kinds.
    question_tokens: the most that the target adds to an opening.
    samplings: of the answers, taken in turn. Questions are sampled a little below temperature 1,
        where they make sense more often.
    max_new_tokens: of an answer.

    Raises:
        ConfigError: `place` holds something else.
    """
    texts = _read(place)[:count]
    place.parent.mkdir(parents=True, exist_ok=True)
    rounds = range(len(texts), count, batch)
    for first in track(rounds, "The target writes", console=console, disable=not rounds):
        numbers = range(first, min(first + batch, count))
        if prompts:
            asked = [prompts[number % len(prompts)].turns[:1] for number in numbers]
            heads = [target.encode_turns(turns, chat=chat) for turns in asked]
            questions = [Text(ids, len(ids), len(ids)) for ids in heads]
        else:
            # Each opening meets each temperature.
            turns_of = [openings[number // len(samplings) % len(openings)] for number in numbers]
            questions = _questions(target, numbers, turns_of, chat, samplings[0], question_tokens)
        new = _answers(target, questions, numbers, samplings, max_new_tokens)
        with place.open("a") as file:
            file.writelines(json.dumps(asdict(text)) + "\n" for text in new)
        texts += new
    return texts


def template(target: Target, *, chat: bool) -> tuple[list[int], list[int]]:
    """Returns the ids before a user's words and those behind them, up to the answer."""
    tokenizer = target.tokenizer
    if not chat or tokenizer is None or not tokenizer.chat_template:
        return [min(target.eos, default=0)], []
    turn = [{"role": "user", "content": PLACE}]
    is_int = str(tokenizer.apply_chat_template(turn, tokenize=False, add_generation_prompt=True))
    before, _, behind = is_int.partition(PLACE)
    return (
        list(tokenizer(before, add_special_tokens=False)["input_ids"]),
        list(tokenizer(behind, add_special_tokens=False)["input_ids"]),
    )


def _questions(
    target: Target,
    numbers: range,
    openings: Sequence[str],
    chat: bool,
    sampling: Sampling,
    max_new_tokens: int,
) -> list[Text]:
    """Returns questions of the target's own, one to each opening."""
    before, behind = template(target, chat=chat)
    heads = [[*before, *_encoded(target, opening)] for opening in openings]
    free = Sampling(temperature=0.8, top_p=0.95, seed=sampling.seed)
    chances = [SampledChance.seeded(seed(free, [number])) for number in numbers]
    written = target.write(heads, free, chances, max_new_tokens)
    asked = [
        [*head, *_ended(question, target, behind)]
        for head, question in zip(heads, written, strict=True)
    ]
    starts = [len(head) for head in heads]
    return [Text(ids, start, len(ids)) for ids, start in zip(asked, starts, strict=True)]


def _encoded(target: Target, opening: str) -> list[int]:
    if not opening or target.tokenizer is None:
        return []
    return list(target.tokenizer(opening, add_special_tokens=False)["input_ids"])


def _ended(question: list[int], target: Target, behind: list[int]) -> list[int]:
    """Returns the question, and behind it what leads to the answer, with one end of turn."""
    if not behind:
        return question
    words = list(itertools.takewhile(lambda token: token not in target.eos, question))
    return [*words, *behind]


def _answers(
    target: Target,
    questions: Sequence[Text],
    numbers: range,
    samplings: Sequence[Sampling],
    max_new_tokens: int,
) -> list[Text]:
    found: dict[int, Text] = {}
    for place, sampling in enumerate(samplings):
        mine = [row for row, number in enumerate(numbers) if number % len(samplings) == place]
        if not mine:
            continue
        # Texts of like length go together, since all of a batch are as long as the longest.
        mine.sort(key=lambda row: len(questions[row].ids))
        for first in range(0, len(mine), TOGETHER):
            rows = mine[first : first + TOGETHER]
            chances = [
                SampledChance.seeded(
                    seed(replace(sampling, seed=sampling.seed + 1), [numbers[row]])
                )
                for row in rows
            ]
            heads = [questions[row].ids for row in rows]
            answers = target.write(heads, sampling, chances, max_new_tokens)
            for row, answer in zip(rows, answers, strict=True):
                question = questions[row]
                found[row] = Text([*question.ids, *answer], question.start, question.answer)
    return [found[row] for row in range(len(numbers))]


def _read(place: Path) -> list[Text]:
    if not place.is_file():
        return []
    lines = place.read_text().splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):  # a kill cut it short: it is written again
        place.write_text("".join(lines[:-1]))
        lines = lines[:-1]
    try:
        return [Text(**json.loads(line)) for line in lines]
    except (ValueError, TypeError) as error:
        raise ConfigError(f"{place}: expected texts of the target, a JSON object a line") from error
