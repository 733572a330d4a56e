"""Vocabulary: the tokens a drafter can write, where it knows only the frequent ones."""

from collections.abc import Iterable
from typing import final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


@final
class Vocabulary:
    """Some of the target's tokens, in the order of their ids, and the way there and back.

    A drafter that never writes the others is no less lossless, and its head is as much smaller.

    ids: of each of the drafter's tokens the target's; none stands for all of them.
    """

    def __init__(self, size: int, ids: Int[Tensor, "some"] | None = None) -> None:
        self.size = size
        self.ids = ids

    def __len__(self) -> int:
        return self.size if self.ids is None else len(self.ids)

    def rows(self, matrix: Float[Tensor, "all width"]) -> Float[Tensor, "some width"]:
        """Returns the rows of an embedding or head that belong to the drafter's tokens."""
        return matrix[: self.size] if self.ids is None else matrix[self.ids.to(matrix.device)]

    def knows(self, tokens: Int[Tensor, "*any"]) -> Bool[Tensor, "*any"]:
        """Returns which of the target's tokens the drafter has."""
        if self.ids is None:
            return torch.ones_like(tokens, dtype=torch.bool)
        return torch.isin(tokens, self.ids.to(tokens.device))

    def places(self, tokens: Int[Tensor, "*any"]) -> Int[Tensor, "*any"]:
        """Returns the drafter's numbers of some of the target's tokens, all of which it knows."""
        if self.ids is None:
            return tokens
        return torch.searchsorted(self.ids.to(tokens.device), tokens)

    def spread(self, logits: Float[Tensor, "*rows some"]) -> Float[Tensor, "*rows all"]:
        """Returns logits over the target's tokens, -inf where the drafter has none."""
        if self.ids is None:
            return logits
        full = logits.new_full((*logits.shape[:-1], self.size), float("-inf"))
        full[..., self.ids.to(logits.device)] = logits
        return full


def frequent(texts: Iterable[Iterable[int]], size: int, count: int) -> Vocabulary:
    """Returns the vocabulary of the `count` tokens that texts have most often.

    size: of the target's vocabulary. Of equally frequent tokens the lower ids come first.
    """
    if count >= size:
        return Vocabulary(size)
    seen = torch.zeros(size, dtype=torch.long)
    for text in texts:
        seen += torch.bincount(torch.tensor(list(text), dtype=torch.long), minlength=size)
    order = seen.argsort(descending=True, stable=True)
    return Vocabulary(size, order[:count].sort().values)
