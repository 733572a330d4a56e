"""Prompts of a length: cut in the middle, or with other prompts and their answers before."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import cycle, islice

from outrider.contract.target import Target
from outrider.lab.measuring.texts import cache_folder, written
from outrider.lab.measuring.variants import Question, Settings


def at_length(
    target: Target, questions: Sequence[Question], writing: Settings, length: int
) -> list[Question]:
    """Returns the questions with prompts of so many tokens, and the target's texts after them."""
    prompts = []
    for number, question in enumerate(questions):
        others = [*questions[number + 1 :], *questions[:number]]
        before = cycle([token for it in others for token in (*it.tokens, *it.text)])
        tokens = [*islice(before, max(0, length - len(question.tokens))), *question.tokens]
        prompts.append([*tokens[: length // 2], *tokens[len(tokens) - (length - length // 2) :]])
    texts = written(
        target, prompts, writing.sampling, writing.max_new_tokens, batch=1, folder=cache_folder()
    )
    return [
        replace(question, tokens=prompt, text=text)
        for question, prompt, text in zip(questions, prompts, texts, strict=True)
    ]
