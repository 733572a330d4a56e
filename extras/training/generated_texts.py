"""A target writes questions of its own, and answers to questions."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import final

from outrider.contract.chance import SampledChance
from outrider.contract.sampling import Sampling
from outrider.contract.target import Target
from outrider.data.prompts import Prompt
from outrider.decoding.batches.batch_target import Turn, batched
from outrider.lab.measuring.texts import seed

MARK = "\0here\0"
"""Stands for a user's words in the chat template, to find what comes before and after them."""


@final
@dataclass(frozen=True, slots=True)
class Text:
    """A text to learn from.

    ids: the whole text, prompt included.
    start: the position of the first id that the target wrote.
    answer: the position of the first id of the target's last answer.
    mask: 1 for each id that the target wrote; None if it wrote all from `start` on.
    row: its number among the texts of a file of rows, from 0; None if it is from no such file.
    """

    ids: list[int]
    start: int
    answer: int
    mask: list[int] | None = None
    row: int | None = field(default=None, compare=False)

    @property
    def own(self) -> list[bool]:
        """For each id, whether the target wrote it."""
        if self.mask is None:
            return [position >= self.start for position in range(len(self.ids))]
        return [value == 1 for value in self.mask]

    @property
    def written(self) -> list[list[int]]:
        """The ids that the target wrote, in runs without a gap."""
        runs = itertools.groupby(zip(self.own, self.ids, strict=True), key=lambda pair: pair[0])
        return [[token for _, token in run] for is_own, run in runs if is_own]


@final
@dataclass(frozen=True, slots=True)
class Writing:
    """How a target writes texts.

    chat: whether questions go through the chat template.
    samplings: of the answers, in turn. The target's own questions are sampled at temperature 0.8
        and top_p 0.95, where they make sense more often.
    question_tokens: the most tokens that the target adds to an opening.
    max_new_tokens: the most tokens of an answer.
    openings: how the target's own questions begin, in turn, so that they are of many kinds.
    """

    chat: bool
    samplings: Sequence[Sampling]
    question_tokens: int
    max_new_tokens: int
    openings: Sequence[str] = ("",)


def write_texts(
    target: Target, prompts: Sequence[Prompt], numbers: range, writing: Writing
) -> Iterator[Text]:
    """Yields the texts with these numbers, which depend on nothing else.

    Without prompts the target writes the questions too. It starts at the user's turn of the chat
    template, or at a single end-of-text token if there is no template.
    """
    before, after = ([], []) if prompts else template_around_user(target, chat=writing.chat)
    openings = [[*before, *_encoded(target, opening)] for opening in writing.openings]

    def head(number: int) -> list[int]:
        if prompts:
            turn = prompts[number % len(prompts)].turns[:1]
            return target.encode_turns(turn, chat=writing.chat)
        # Each opening meets each of the answers' samplings.
        return openings[number // len(writing.samplings) % len(openings)]

    def turns(number: int) -> list[Turn]:
        if prompts:
            return [_answer(head(number), number, writing)]
        return [_question(head(number), number, writing), _answer(after, number, writing)]

    with target.computing():
        written = batched(target).write_turns(map(turns, numbers))
        for number, (*questions, answer) in zip(numbers, written, strict=True):
            begin, words = head(number), [token for question in questions for token in question]
            if after:  # these ids end the question, in place of the target's end of text
                words = list(itertools.takewhile(lambda token: token not in target.eos, words))
            ids = [*begin, *words, *after]
            yield Text([*ids, *answer], len(begin), len(ids))


def _question(ids: Sequence[int], number: int, writing: Writing) -> Turn:
    """Returns the turn in which the target writes a question of its own."""
    sampling = Sampling(temperature=0.8, top_p=0.95, seed=writing.samplings[0].seed)
    chance = SampledChance.seeded(seed(sampling, [number]))
    return Turn(ids, sampling, chance, writing.question_tokens)


def _answer(ids: Sequence[int], number: int, writing: Writing) -> Turn:
    """Returns the turn in which the target answers."""
    sampling = writing.samplings[number % len(writing.samplings)]
    seeding = replace(sampling, seed=((sampling.seed or 0) + 1) % 2**64)
    chance = SampledChance.seeded(seed(seeding, [number]))
    return Turn(ids, sampling, chance, writing.max_new_tokens)


def template_around_user(target: Target, *, chat: bool) -> tuple[list[int], list[int]]:
    """Returns the ids before a user's words, and those between them and the answer."""
    tokenizer = target.tokenizer
    if not chat or tokenizer is None or not tokenizer.chat_template:
        return [min(target.eos, default=0)], []
    turn = [{"role": "user", "content": MARK}]
    text = str(tokenizer.apply_chat_template(turn, tokenize=False, add_generation_prompt=True))
    before, _, after = text.partition(MARK)
    return (
        list(tokenizer(before, add_special_tokens=False)["input_ids"]),
        list(tokenizer(after, add_special_tokens=False)["input_ids"]),
    )


def _encoded(target: Target, opening: str) -> list[int]:
    if not opening or target.tokenizer is None:
        return []
    return list(target.tokenizer(opening, add_special_tokens=False)["input_ids"])
