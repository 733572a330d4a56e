"""Readings: texts that are scored round by round, beside the logits of plain passes.

The self-test of a model and the conformance kit play the same readings: the self-test a few when
the model is loaded, the kit more of them with any target, each with texts of its own.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, final

import torch
from jaxtyping import Float
from torch import Tensor

from outrider.contract.draft import ROOT, Draft, Logits, Verdict
from outrider.contract.target import Session
from outrider.decoding.batches.batch_target import score_one_by_one

Round = tuple[Draft, Verdict]
"""A draft, and the verdict on it."""

Plain = Callable[[Sequence[int], Sequence[int]], Float[Tensor, "vocab"]]
"""Returns the logits after a prompt and further tokens, read in the plainest way there is."""

Score = Callable[[Sequence[Any], Sequence[Draft]], Sequence[Logits]]
"""Returns the logits of a draft for each of some sessions."""


@final
@dataclass(slots=True)
class Text:
    """A text in progress.

    tokens: those after the prompt that are committed.
    """

    session: Session
    prompt: Sequence[int]
    tokens: list[int] = field(default_factory=list)


@final
@dataclass(frozen=True, slots=True)
class Reading:
    """The logits of a draft's context and nodes, beside those of plain passes.

    case: which text and round, for messages.
    """

    case: str
    rows: Float[Tensor, "rows vocab"]
    expected: Float[Tensor, "rows vocab"]


def read(
    texts: Sequence[Text],
    rounds: Sequence[Mapping[int, Round]],
    plain: Plain,
    score: Score = score_one_by_one,
) -> Iterator[Reading]:
    """Yields the readings of some texts, and commits the verdicts.

    rounds: what is drafted in each round, by the index of the text.
    """
    for number, drafts in enumerate(rounds, start=1):
        sessions = [texts[index].session for index in drafts]
        scores = score(sessions, [draft for draft, _ in drafts.values()])
        for (index, (draft, verdict)), rows in zip(drafts.items(), scores, strict=True):
            text = texts[index]
            paths = [_tokens(draft, draft.path(node)) for node in range(ROOT, len(draft))]
            # From the last on: the plain passes over a long path have the rows of its beginnings.
            expected = [plain(text.prompt, [*text.tokens, *path]) for path in reversed(paths)]
            case = f"text {index + 1}, round {number}, {len(draft)} tokens drafted"
            assert len(rows) == len(paths), f"{len(rows)} rows for {len(draft)} tokens ({case})"
            yield Reading(case, rows, torch.stack(expected[::-1]))
            text.session.commit(verdict)
            text.tokens += [*_tokens(draft, verdict.accepted), verdict.next_token]


def _tokens(draft: Draft, path: Sequence[int]) -> list[int]:
    return [draft.tokens[node] for node in path]


def chain_rounds(
    tokens: Sequence[int], others: Sequence[int], plan: Sequence[tuple[int, int]]
) -> list[dict[int, Round]]:
    """Returns the rounds of one text that goes on with `tokens`.

    others: another token for each, which is drafted where the draft is rejected.
    plan: for each round, how many tokens are drafted, and how many of them accepted.
    """
    rounds, known = [], 0
    for drafted, accepted in plan:
        end = known + accepted
        draft = Draft.chain([*tokens[known:end], *others[end : known + drafted]])
        rounds.append({0: (draft, Verdict(tuple(range(accepted)), tokens[end]))})
        known = end + 1
    return rounds


def spread_over(ids: Sequence[int], count: int) -> list[int]:
    """Returns some of the ids, such that neighbours differ if there are two."""
    step = int(0.382 * len(ids)) or 1
    return [ids[(1 + step * number) % len(ids)] for number in range(count)]


def rows_of(texts: Sequence[Sequence[int]], logits: Float[Tensor, "texts tokens vocab"]) -> Plain:
    """Returns what finds the logits after the beginnings of texts that one pass has read.

    Of a beginning that several texts have, it finds those of the first.
    """
    rows = {
        tuple(text[:length]): row
        for text, of_text in reversed(list(zip(texts, logits, strict=True)))
        for length, row in enumerate(of_text, start=1)
    }
    return lambda prompt, tokens: rows[*prompt, *tokens]
