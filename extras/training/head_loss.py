"""Head losses: how far predictions are from the target's, and where they are learned."""

from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Bool
from torch import Tensor
from torch.nn.functional import linear

from outrider.drafters.parts.networks.vocabulary import Vocabulary
from outrider.extras.training.losses import (
    Logits,
    Rows,
    States,
    Tokens,
    cross_entropy,
    forward_kl,
    total_variation,
)
from outrider.extras.training.states import Batch

LOW = -1e4
"""Stands for -inf, whose differences have no gradient; its probability is 0 all the same."""


@final
@dataclass(frozen=True, slots=True)
class HeadLoss:
    """The distance from the target's distributions, or from its tokens.

    vocabulary: the tokens that the logits stand for.
    matrix: the target's output matrix for these tokens, [known, width].
    soft: whether to learn the target's distributions; if not, its tokens.
    """

    vocabulary: Vocabulary
    matrix: Tensor
    soft: bool = True

    def __call__(self, logits: Logits, target_states: States, tokens: Tokens) -> Tensor:
        """Returns the mean distance, 0 if there are no rows.

        target_states: those that the target's head reads for the same tokens.
        """
        if not len(logits):
            return logits.sum() * 0
        return self.terms(logits, target_states, tokens).mean()

    def terms(self, logits: Logits, target_states: States, tokens: Tokens) -> Rows:
        """Returns the distance of each row.

        Tokens that the logits rule out with -inf are left out of the target's distributions; a row
        whose token they rule out has no distance from it.
        """
        excluded = logits.isneginf()
        logits = logits.masked_fill(excluded, LOW)
        if self.soft:
            target = linear(target_states, self.matrix)
            return forward_kl(logits, target.masked_fill(excluded, LOW))
        numbers = self.vocabulary.numbers(tokens)
        is_excluded = excluded.gather(-1, numbers[:, None])[:, 0]
        return cross_entropy(logits, numbers).masked_fill(is_excluded, 0.0)

    @torch.no_grad()
    def acceptance(self, logits: Logits, target_states: States) -> Rows:
        """Returns sum_x min(p, q) of each row, over the tokens of the vocabulary."""
        target = linear(target_states, self.matrix)
        return 1 - total_variation(logits, target)


def learnable(batch: Batch, vocabulary: Vocabulary, ahead: int) -> Bool[Tensor, "batch tokens"]:
    """Returns the positions from which the token `ahead` positions later can be learned.

    The target must have written that token, and the vocabulary must know it and the target's
    likeliest token there.
    """
    counted = torch.zeros_like(batch.own)
    inside = batch.own[:, ahead:] & vocabulary.knows(batch.best[:, ahead - 1 : -1])
    counted[:, : inside.shape[1]] = inside & vocabulary.knows(batch.ids[:, ahead:])
    return counted
