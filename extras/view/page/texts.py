"""Who wrote each token, round by round, for the pages."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, final

from outrider.contract.context import Tokens
from outrider.contract.round import ROOT
from outrider.data.reading import spaced
from outrider.lab.measuring.measurement import Decoding, Measurement, Overlap, Step
from outrider.lab.runs.row import in_order
from outrider.lab.runs.summary import Summary

SOME = 6
"""The number of questions whose texts a page shows, if it does not show all."""


Token = tuple[str, str, float | None, float | None]
"""The characters and the origin of a token, and its probability to the target and to the drafter
before the run's sampling, or None."""


@final
@dataclass(frozen=True, slots=True)
class ShownRound:
    """A round of a text. thrown: the draft tokens that did not get into the text, if stored."""

    tokens: list[Token]
    thrown: list[str]
    drafted: int


@final
@dataclass(frozen=True, slots=True)
class ShownQuestion:
    """A question with its texts.

    texts: of each drafter, its name, its rounds, and its tokens per call.
    aligned: the tokens of the first drafter's text, each with a mark for each drafter: the token's
        origin and whether a round starts with it; None where its text has departed from this one.
        Empty if there is only one text.
    agreed: whether all texts are the same to the end.
    """

    title: str
    asked: str
    texts: list[tuple[str, list[ShownRound], str]]
    aligned: list[tuple[str, list[tuple[str, bool] | None]]]
    agreed: bool


def questions(summary: Summary, chosen: slice | None = None) -> list[ShownQuestion]:
    """Returns questions that all drafters have finished, with every text, in rank order.

    Drafters that drafted nothing are left out. chosen: which; None for some, evenly spaced.
    """
    answers: dict[tuple[str, int], list[tuple[Measurement, Decoding]]] = {}
    overlaps: dict[tuple[str, int, str], Overlap] = {}
    places = {row.drafter: place for place, row in enumerate(in_order(summary.rows))}
    for measurement in sorted(summary.run.measurements, key=lambda it: places.get(it.drafter, 0)):
        key = (measurement.prompt, measurement.turn)
        if measurement.overlap is not None:
            overlaps[(*key, measurement.drafter)] = measurement.overlap
        if measurement.decoding is not None and measurement.prompt in summary.prompts:
            answers.setdefault(key, []).append((measurement, measurement.decoding))
    asked = {(prompt, turn): text for prompt, turn, text in summary.run.facts["questions"]}
    keys = spaced(list(answers), SOME) if chosen is None else list(answers)[chosen]
    shown = []
    for key in keys:
        drafted = [pair for pair in answers[key] if pair[1].counts.drafted]
        texts = [
            (
                m.drafter,
                shown_rounds(decoding.steps, overlaps.get((*key, m.drafter))),
                f"{decoding.counts.block_efficiency:.2f}",
            )
            for m, decoding in drafted
        ]
        prompt, turn = key
        title = f"{answers[key][0][0].category}, prompt {prompt}" + f", turn {turn}" * (turn > 1)
        aligned = _align([decoding for _, decoding in drafted])
        shown.append(ShownQuestion(title, asked[key], texts, *aligned))
    return shown


def shown_rounds(steps: Sequence[Step], overlap: Overlap | None) -> list[ShownRound]:
    """Returns the rounds of a text, with p and q as far as the overlap protocol had this text."""
    probs: Iterator[tuple[float | None, float | None]] = iter(())
    if overlap is not None:
        tokens = [token for step in steps for token in step.tokens]
        shared = Tokens(tokens).shared(Tokens([*overlap.text]))
        probs = zip(overlap.text_p[:shared], overlap.text_q[:shared], strict=True)
    rounds = []
    for step in steps:
        pieces = zip(step.pieces, step.origins, strict=True)
        shown = [(*pair, *next(probs, (None, None))) for pair in pieces]
        rounds.append(ShownRound(shown, _thrown(step), step.drafted))
    return rounds


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


def _align(texts: Sequence[Decoding]) -> tuple[Any, bool]:
    """Returns the first text with the marks of all, and whether all texts are the same."""
    if len(texts) < 2:
        return [], True
    tokens = [[token for step in text.steps for token in step.tokens] for text in texts]
    same = [Tokens(tokens[0]).shared(Tokens(other)) for other in tokens]
    marks = [
        [(origin, number == 0) for step in text.steps for number, origin in enumerate(step.origins)]
        for text in texts
    ]
    pieces = [piece for step in texts[0].steps for piece in step.pieces]
    aligned = [
        (piece, [mark[i] if i < length else None for mark, length in zip(marks, same, strict=True)])
        for i, piece in enumerate(pieces)
    ]
    return aligned, all(other == tokens[0] for other in tokens)
