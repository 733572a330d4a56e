"""Constraint: changes the target's logits along a text, and may end it."""

from collections.abc import Sequence
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from outrider.contract.draft import ROOT, Draft
from outrider.contract.target import Target
from outrider.errors import TargetError


class Constraint:
    """A rule that a text must follow, such as a grammar. This base class allows everything.

    The answers must depend on the ids alone: the positions of a draft are asked about in any order,
    and so are tokens that are rejected later. The constrained distribution takes the place of the
    target's, so a lossless acceptance rule reproduces it exactly.
    """

    def begin(self, target: Target, ids: Sequence[int]) -> "Constraint":
        """Returns the constraint of one text, which may keep a state of that text's own.

        Called before the first round. Defaults to the object itself.

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


@final
class AllOf(Constraint):
    """Several constraints on one text. Each changes the logits that the one before it returned."""

    def __init__(self, *parts: Constraint) -> None:
        self._parts = parts

    def begin(self, target: Target, ids: Sequence[int]) -> Constraint:
        return AllOf(*(part.begin(target, ids) for part in self._parts))

    def logits(self, ids: Sequence[int], logits: Float[Tensor, "vocab"]) -> Float[Tensor, "vocab"]:
        for part in self._parts:
            logits = part.logits(ids, logits)
        return logits

    def ends(self, ids: Sequence[int]) -> bool:
        answers = [part.ends(ids) for part in self._parts]  # each may keep a record of the tokens
        return any(answers)


def constrained(
    constraint: Constraint, ids: list[int], draft: Draft, logits: Float[Tensor, "nodes+1 vocab"]
) -> Float[Tensor, "nodes+1 vocab"]:
    """Returns the constrained logits after the text `ids` and after each node of its draft.

    Raises:
        TargetError: the constraint forbids every token at some position.
    """
    rows = []
    for node, row in enumerate(logits, start=ROOT):
        path = [draft.tokens[ancestor] for ancestor in draft.path(node)]
        rows.append(constraint.logits([*ids, *path], row))
    allowed = torch.stack(rows)
    if not torch.isfinite(allowed.amax(-1)).all():
        raise TargetError(f"{type(constraint).__name__} allows no token at some position")
    return allowed
