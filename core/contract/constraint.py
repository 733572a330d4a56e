"""Constraint: changes the target's logits along a text, and may end it."""

from collections.abc import Sequence
from typing import Any, final

import torch
from jaxtyping import Float
from torch import Tensor

from outrider.base.calling import Unusable, calling, returned
from outrider.base.errors import TargetError
from outrider.contract.draft import ROOT, Draft, Logits


class Constraint:
    """A condition that a text must meet, such as a grammar. This base class allows everything.

    The answers must depend on the ids alone: a constraint is asked about the positions of a draft
    in any order, including tokens that are rejected later. The constrained distribution takes the
    place of the target's, so a lossless acceptance rule reproduces it exactly.
    """

    def begin(self, target: Any, ids: Sequence[int]) -> "Constraint":
        """Returns the constraint for one text, which may hold state of its own.

        Called before the first round. Defaults to the object itself.

        target: the `Target` that writes the text.
        ids: the first ids of the text; its prompt, for a decoder-only target.
        """
        return self

    def logits(self, ids: Sequence[int], logits: Float[Tensor, "vocab"]) -> Float[Tensor, "vocab"]:
        """Returns the logits of the token after `ids`, which include the prompt.

        logits: the target's own.
        """
        return logits

    def ends(self, ids: Sequence[int]) -> bool:
        """Returns whether the text ends with the last of `ids`. Asked once for each new token."""
        return False

    def steering(self) -> "Constraint | None":
        """Returns the constraint that the pen applies to the drafter's logits.

        It changes what is drafted, and so how much is accepted, but not the distribution of the
        text. Defaults to None: drafts ignore the constraint.
        """
        return None

    def forced(self, ids: Sequence[int]) -> list[int]:
        """Returns the next tokens, as far as the constraint decides them.

        Where it decides only the characters, these are the tokens that usually spell them. A
        drafter may ask for them through its pen. Defaults to no tokens.
        """
        return []


@final
class AllOf(Constraint):
    """Several constraints on one text. Each changes the logits that the one before it returned."""

    def __init__(self, *parts: Constraint) -> None:
        self._parts = parts

    def begin(self, target: Any, ids: Sequence[int]) -> Constraint:
        return AllOf(*(part.begin(target, ids) for part in self._parts))

    def logits(self, ids: Sequence[int], logits: Float[Tensor, "vocab"]) -> Float[Tensor, "vocab"]:
        for part in self._parts:
            logits = changed(part, ids, logits)
        return logits

    def ends(self, ids: Sequence[int]) -> bool:
        answers = [part.ends(ids) for part in self._parts]  # each may keep a record of the tokens
        return any(answers)

    def steering(self) -> Constraint | None:
        parts = [part.steering() for part in self._parts]
        steering = [part for part in parts if part is not None]
        return AllOf(*steering) if steering else None

    def forced(self, ids: Sequence[int]) -> list[int]:
        return next((tokens for part in self._parts if (tokens := part.forced(ids))), [])


@final
class Guide:
    """A constraint at one node of a draft, to ask about the next token.

    constraint: one that steers drafts.
    ids: the text and the draft before that token.
    """

    def __init__(self, constraint: Constraint, ids: Sequence[int]) -> None:
        self._constraint, self._ids = constraint, ids

    def steered(self, logits: Float[Tensor, "vocab"]) -> Float[Tensor, "vocab"]:
        """Returns a drafter's logits under the constraint.

        They are returned unchanged if the constraint forbids every token that they make possible.
        """
        steered = changed(self._constraint, self._ids, logits)
        return steered if torch.isfinite(steered.max()) else logits

    def allows(self, token: int, vocab: int) -> bool:
        """Returns whether the constraint allows a token.

        vocab: the size of the vocabulary.
        """
        return bool(torch.isfinite(changed(self._constraint, self._ids, torch.zeros(vocab))[token]))

    def forced(self) -> list[int]:
        """Returns the tokens that must come next; see `Constraint.forced`."""
        with calling("constraint", self._constraint):
            return self._constraint.forced(self._ids)

    def after(self, tokens: Sequence[int]) -> "Guide":
        """Returns the guide for the token after `tokens`, which come next."""
        return Guide(self._constraint, [*self._ids, *tokens])


def changed(
    constraint: Constraint, ids: Sequence[int], logits: Float[Tensor, "vocab"]
) -> Float[Tensor, "vocab"]:
    """Returns the logits of the token after `ids` under a constraint.

    Raises `PluginError` if the constraint returned no such row.
    """
    with calling("constraint", constraint):
        row = returned(constraint.logits(ids, logits), Tensor)
        if row.shape != logits.shape:
            shapes = f"{tuple(row.shape)}, expected {tuple(logits.shape)}"
            raise Unusable(f"returned logits of shape {shapes}")
        return row


def constrained(constraint: Constraint, ids: list[int], draft: Draft, logits: Logits) -> Logits:
    """Returns the constrained logits after the text `ids` and after each node of its draft.

    A token that the constraint forbids is never accepted by a lossless rule, so the constraint is
    not asked what may follow it: the row after it repeats its parent's.

    Raises `TargetError` if the constraint forbids every token at some position.
    """
    rows: list[Tensor] = []
    reachable: list[bool] = []
    for node, row in enumerate(logits, start=ROOT):
        before = 0 if node == ROOT else draft.parents[node] + 1
        reachable.append(
            node == ROOT
            or (reachable[before] and bool(torch.isfinite(rows[before][draft.tokens[node]])))
        )
        if not reachable[-1]:
            rows.append(rows[before])
            continue
        path = [draft.tokens[ancestor] for ancestor in draft.path(node)]
        rows.append(changed(constraint, [*ids, *path], row))
    allowed = torch.stack(rows)
    if not torch.isfinite(allowed.amax(-1)).all():
        raise TargetError(f"{type(constraint).__name__} allows no token at some position")
    return allowed
