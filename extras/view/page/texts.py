"""Who wrote each token, round by round, for the pages."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from outrider.contract.context import Tokens
from outrider.contract.round import ROOT
from outrider.lab.measuring.measurement import Decoding, Measurement, Overlap, Step
from outrider.lab.runs.summary import Summary

SOME = 6
"""The number of questions whose texts a page shows, if it does not show all."""


@final
@dataclass(frozen=True, slots=True)
class ShownToken:
    """A token of a text.

    p, q: its probability to the target and to the drafter before the run's sampling, or None.
    """

    piece: str
    origin: str
    p: float | None = None
    q: float | None = None


@final
@dataclass(frozen=True, slots=True)
class ShownRound:
    """A round of a text. thrown: the draft tokens that did not get into the text, if stored."""

    tokens: list[ShownToken]
    thrown: list[str]
    drafted: int


@final
@dataclass(frozen=True, slots=True)
class ShownText:
    """A drafter's text for a question. rate: its tokens per call."""

    drafter: str
    rounds: list[ShownRound]
    rate: str


@final
@dataclass(frozen=True, slots=True)
class Column:
    """A token of the text that several drafters have written, with a mark for each drafter.

    marks: by drafter, the origin of the token and whether a round starts with it; None where its
        text has departed from this one.
    """

    piece: str
    marks: list[tuple[str, bool] | None]


@final
@dataclass(frozen=True, slots=True)
class ShownQuestion:
    """A question with its texts.

    aligned: the text of the first drafter with the marks of all; empty if there is only one text.
    agreed: whether all texts are the same to the end.
    """

    prompt: str
    turn: int
    title: str
    asked: str
    texts: list[ShownText]
    aligned: list[Column]
    agreed: bool


def questions(summary: Summary, chosen: slice | None = None) -> list[ShownQuestion]:
    """Returns questions that all drafters have finished, with every text.

    Drafters that drafted nothing are left out. chosen: which; None for some, evenly spaced.
    """
    answers: dict[tuple[str, int], list[tuple[Measurement, Decoding]]] = {}
    overlaps: dict[tuple[str, int, str], Overlap] = {}
    for measurement in summary.run.measurements:
        key = (measurement.prompt, measurement.turn)
        if measurement.overlap is not None:
            overlaps[(*key, measurement.drafter)] = measurement.overlap
        if measurement.decoding is not None and measurement.prompt in summary.prompts:
            answers.setdefault(key, []).append((measurement, measurement.decoding))
    asked = {(prompt, turn): text for prompt, turn, text in summary.run.facts["questions"]}
    keys = list(answers)
    count = min(SOME, len(keys))
    spaced = [keys[i * len(keys) // count] for i in range(count)]
    shown = []
    for key in spaced if chosen is None else keys[chosen]:
        drafted = [pair for pair in answers[key] if pair[1].counts.drafted]
        texts = [
            ShownText(
                m.drafter,
                shown_rounds(decoding.steps, overlaps.get((*key, m.drafter))),
                f"{decoding.counts.block_efficiency:.2f}",
            )
            for m, decoding in drafted
        ]
        columns, agreed = _align([decoding for _, decoding in drafted])
        prompt, turn = key
        title = f"{answers[key][0][0].category}, prompt {prompt}"
        title += f", turn {turn}" if turn > 1 else ""
        shown.append(ShownQuestion(prompt, turn, title, asked[key], texts, columns, agreed))
    return shown


def shown_rounds(steps: Sequence[Step], overlap: Overlap | None) -> list[ShownRound]:
    """Returns the rounds of a text, with p and q as far as the overlap protocol had this text."""
    tokens = [token for step in steps for token in step.tokens]
    shared = Tokens(tokens).shared(Tokens([*overlap.text])) if overlap else 0
    ps = [*(overlap.text_p[:shared] if overlap else ()), *[None] * (len(tokens) - shared)]
    qs = [*(overlap.text_q[:shared] if overlap else ()), *[None] * (len(tokens) - shared)]
    pieces = [pair for step in steps for pair in zip(step.pieces, step.origins, strict=True)]
    shown = [ShownToken(*pair, p, q) for pair, p, q in zip(pieces, ps, qs, strict=True)]
    ends = list(itertools.accumulate(len(step.tokens) for step in steps))
    return [
        ShownRound(shown[end - len(step.tokens) : end], _thrown(step), step.drafted)
        for step, end in zip(steps, ends, strict=True)
    ]


def _thrown(step: Step) -> list[str]:
    """Returns the characters of the draft tokens that were not accepted, in the draft's order."""
    children: dict[int, list[int]] = {}
    for node, parent in enumerate(step.parents):
        children.setdefault(parent, []).append(node)
    kept, node = set[int](), ROOT
    for rank in step.ranks:
        node = children[node][rank] if node in children else ROOT
        kept.add(node)
    return [piece for node, piece in enumerate(step.proposed) if node not in kept]


def _align(texts: Sequence[Decoding]) -> tuple[list[Column], bool]:
    """Returns the first text with the marks of all, and whether all texts are the same."""
    if len(texts) < 2:
        return [], True
    tokens = [[token for step in text.steps for token in step.tokens] for text in texts]
    pieces = [piece for step in texts[0].steps for piece in step.pieces]
    marks = [
        [(origin, number == 0) for step in text.steps for number, origin in enumerate(step.origins)]
        for text in texts
    ]
    same = [Tokens(tokens[0]).shared(Tokens(other)) for other in tokens]
    columns = [
        Column(
            piece,
            [mark[i] if i < length else None for mark, length in zip(marks, same, strict=True)],
        )
        for i, piece in enumerate(pieces)
    ]
    return columns, all(other == tokens[0] for other in tokens)
