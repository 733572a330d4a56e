"""Compares texts of two engines for the same prompts: where they part, and whether at a tie."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

from outrider.base.errors import ConfigError, require
from outrider.contract.draft import Draft
from outrider.contract.target import Target
from outrider.data.jsonl import json_lines
from outrider.extras.audit.client import parting
from outrider.extras.audit.expected import BFLOAT16
from outrider.extras.audit.rounding import closed_by_rounding

TEXTS = ("tokens", "token_ids", "text", "completion", "output", "response", "answer")
"""The keys that may hold what was written, in the order in which they are looked for."""

PROMPTS = ("prompt", "question", "messages", "turns")

Written = tuple[Any, str | list[int]]
"""A prompt, and what was written after it: a text, or ids."""


@final
@dataclass(frozen=True, slots=True)
class Difference:
    """Where two texts part.

    number: of the text, from 0. place: of the first token that differs, or character.
    tokens: what each has there.
    below: by how much each is less likely than the likeliest there, as logarithms, if it is known.
    verdict: "tie", "rounding" (it may be, in bfloat16), "fault", or "not judged" without a target.
    """

    number: int
    place: int
    tokens: tuple[str, ...]
    below: tuple[float, ...] | None
    verdict: str


def written_in(path: str) -> list[Written]:
    """Returns the texts of a file with a JSON object for each.

    Raises `ConfigError` for a record without a text.
    """
    found: list[Written] = []
    for where, record in json_lines(path):
        if isinstance(record, ConfigError):
            raise record
        told = record.items() if isinstance(record, Mapping) else ()
        fields: dict[str, Any] = {name: it for name, it in told if it is not None}
        text: Any = next((fields[name] for name in TEXTS if name in fields), None)
        is_ids = isinstance(text, list) and all(type(token) is int for token in text)
        if not (is_ids or isinstance(text, str)):
            known = f"a text or the ids of its tokens, as {', '.join(TEXTS)}"
            raise ConfigError(f"{where}: expected {known}")
        found.append((next((fields[name] for name in PROMPTS if name in fields), ""), text))
    return found


def compared(
    mine: Sequence[Written],
    theirs: Sequence[Written],
    target: Target | None,
    tie: float,
    chat: bool,
) -> list[Difference]:
    """Returns where greedy texts differ, those of the same place in both files.

    tie: the gap of log-probabilities of two tokens that either may come first by.
    chat: whether a prompt that is a text was a user's turn.

    Raises `ConfigError` if the prompts are not the same.
    """
    require(len(mine) == len(theirs), "texts", len(theirs), f"{len(mine)}, as in the first file")
    found = []
    for number, ((asked, one), (other, two)) in enumerate(zip(mine, theirs, strict=True)):
        if asked != other:
            raise ConfigError(f"texts: number {number} has another prompt in the second file")
        prompt = [] if target is None else target.encode(asked, chat=chat)
        before = asked if isinstance(asked, str) and not chat else ""
        texts = [_tokens(target, text, prompt, before) for text in (one, two)]
        place = parting(*texts)
        if place is None:
            continue
        tokens = [text[place] if place < len(text) else None for text in texts]
        below, verdict = None, "not judged"
        if target is not None and (target.eos or None not in tokens):
            row = target.open(prompt).score(Draft.chain(texts[0][:place]))[-1].detach().double()
            ends = [[*target.eos] if token is None else [token] for token in tokens]
            below = tuple(float(row.max() - row[each].max()) for each in ends)
            rounding = closed_by_rounding(BFLOAT16 * float(row.abs().max()))
            may_be = "rounding" if max(below) <= rounding else "fault"
            verdict = "tie" if max(below) <= tie else may_be
        tokenizer = None if target is None else target.tokenizer
        told = [it if it is None or tokenizer is None else tokenizer.decode([it]) for it in tokens]
        shown = tuple("the end" if it is None else repr(it) for it in told)
        found.append(Difference(number, place, shown, below, verdict))
    return found


def _tokens(
    target: Target | None, text: str | list[int], prompt: Sequence[int], before: str
) -> Sequence[Any]:
    """Returns the tokens of a text after its prompt; its characters, if there is no target.

    before: the prompt, if its text goes on in this one.
    """
    if isinstance(text, list) or target is None:
        return text
    if before and (whole := target.encode(before + text))[: len(prompt)] == [*prompt]:
        return whole[len(prompt) :]
    return list(target.tokenizer(text, add_special_tokens=False).input_ids)  # type: ignore[misc]
