"""Writing: a target writes questions of its own, and answers to questions."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

from outrider.contract.chance import SampledChance
from outrider.contract.sampling import Sampling
from outrider.contract.target import Target
from outrider.contract.turns import Turn
from outrider.lab.texts import seed
from outrider.prompts import Prompt

MARK = "\0here\0"
"""Stands for a user's words in the chat template, to find what comes before and after them."""


@final
@dataclass(frozen=True, slots=True)
class Text:
    """A text to learn from.

    ids: the whole text, prompt included.
    start: the position of the first id that the target wrote.
    answer: the position of the first id of the target's answer.
    """

    ids: list[int]
    start: int
    answer: int


@final
@dataclass(frozen=True, slots=True)
class Writing:
    """How a target writes texts.

    chat: whether questions go through the chat template.
    samplings: of the answers, in turn. The target's own questions are sampled at temperature 0.8
        and top_p 0.95, where they make sense more often.
    question_tokens: the most tokens that the target adds to an opening.
    max_new_tokens: the most tokens of an answer.
    batch: the number of texts that are written between two writes to disk.
    openings: how the target's own questions begin, in turn, so that they are of many kinds.
    """

    chat: bool
    samplings: Sequence[Sampling]
    question_tokens: int
    max_new_tokens: int
    batch: int
    openings: Sequence[str] = ("",)


def write_texts(
    target: Target, prompts: Sequence[Prompt], numbers: range, writing: Writing
) -> list[Text]:
    """Returns the texts with these numbers, which depend on nothing else.

    Without prompts the target writes the questions too. It starts at the user's turn of the chat
    template, or at a single end-of-text token if there is no template.
    """
    with target.at_work():
        return _write_texts(target, prompts, numbers, writing)


def _write_texts(
    target: Target, prompts: Sequence[Prompt], numbers: range, writing: Writing
) -> list[Text]:
    if prompts:
        turns = [prompts[number % len(prompts)].turns[:1] for number in numbers]
        heads = [target.encode_turns(turn, chat=writing.chat) for turn in turns]
        answers = target.write_turns(
            [[_answer(ids, number, writing)] for ids, number in zip(heads, numbers, strict=True)]
        )
        return [
            Text([*ids, *answer], len(ids), len(ids))
            for ids, (answer,) in zip(heads, answers, strict=True)
        ]
    before, after = template_around_user(target, chat=writing.chat)
    # Each opening meets each of the answers' samplings.
    kinds, openings = len(writing.samplings), writing.openings
    heads = [
        [*before, *_encoded(target, openings[number // kinds % len(openings)])]
        for number in numbers
    ]
    conversations = target.write_turns(
        [
            [_question(ids, number, writing), _answer(after, number, writing)]
            for ids, number in zip(heads, numbers, strict=True)
        ]
    )
    texts = []
    for head, (question, answer) in zip(heads, conversations, strict=True):
        words = question
        if after:  # these ids end the question, in place of the target's end of text
            words = list(itertools.takewhile(lambda token: token not in target.eos, question))
        ids = [*head, *words, *after]
        texts.append(Text([*ids, *answer], len(head), len(ids)))
    return texts


def _question(ids: Sequence[int], number: int, writing: Writing) -> Turn:
    """Returns the turn in which the target writes a question of its own."""
    sampling = Sampling(temperature=0.8, top_p=0.95, seed=writing.samplings[0].seed)
    chance = SampledChance.seeded(seed(sampling, [number]))
    return Turn(ids, sampling, chance, writing.question_tokens)


def _answer(ids: Sequence[int], number: int, writing: Writing) -> Turn:
    """Returns the turn in which the target answers."""
    sampling = writing.samplings[number % len(writing.samplings)]
    seeding = replace(sampling, seed=(sampling.seed + 1) % 2**64)
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
