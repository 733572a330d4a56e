"""Constraint: a further say in a text, of the logits at each of its places and of where it ends."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from outrider.contract.draft import ROOT, Draft
from outrider.errors import TargetError


class Constraint:
    """What a text obeys beside the target; as it stands, nothing.

    The answers depend on the ids alone: a draft's places are asked for in any order, those that are
    then rejected too. The target's distribution is what the constraint leaves of it, so a lossless rule keeps
    the constrained distribution.
    """

    def logits(self, ids: Sequence[int], logits: Float[Tensor, "vocab"]) -> Float[Tensor, "vocab"]:
        """Returns the logits of what follows `ids`, prompt included, in place of the target's."""
        return logits

    def ends(self, ids: Sequence[int]) -> bool:
        """Returns whether the text ends with the last of `ids`; asked of each token in turn."""
        return False


def constrained(
    constraint: Constraint, ids: list[int], draft: Draft, logits: Float[Tensor, "nodes+1 vocab"]
) -> Float[Tensor, "nodes+1 vocab"]:
    """Returns the logits after the text `ids` and after each node of its draft, as constrained.

    Raises:
        TargetError: the constraint leaves a place without any token.
    """
    rows = []
    for node, row in enumerate(logits, start=ROOT):
        path = [draft.tokens[step] for step in draft.path(node)]
        rows.append(constraint.logits([*ids, *path], row))
    found = torch.stack(rows)
    if not torch.isfinite(found.amax(-1)).all():
        raise TargetError(
            f"{type(constraint).__name__} left a place without a token that may follow"
        )
    return found
