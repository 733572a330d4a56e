"""The tokens that a drafter can write, which may be only the frequent ones."""

from collections.abc import Iterable, Sequence
from typing import final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

TENSOR = "vocabulary"
"""The name of the ids among a checkpoint's tensors."""


@final
class Vocabulary:
    """A subset of the target's tokens, numbered in the order of their ids.

    A drafter that knows fewer tokens has a smaller head, and is just as lossless: the target
    writes the others.

    size: the size of the target's vocabulary.
    ids: the target's id of each of the drafter's tokens, ascending; None for all of them.
    """

    def __init__(self, size: int, ids: Int[Tensor, "known"] | None = None) -> None:
        self.size = size
        self.ids = ids

    def tensors(self) -> dict[str, Tensor]:
        """Returns the tensors that stand for it in a checkpoint: none if all tokens are known."""
        return {} if self.ids is None else {TENSOR: self.ids.int()}

    def __len__(self) -> int:
        return self.size if self.ids is None else len(self.ids)

    def rows(self, matrix: Float[Tensor, "vocab width"]) -> Float[Tensor, "known width"]:
        """Returns the rows of an embedding or head that belong to the drafter's tokens."""
        return matrix[: self.size] if self.ids is None else matrix[self.ids.to(matrix.device)]

    def knows(self, tokens: Int[Tensor, "*any"]) -> Bool[Tensor, "*any"]:
        """Returns which of the target's tokens the drafter has."""
        if self.ids is None:
            return torch.ones_like(tokens, dtype=torch.bool)
        return torch.isin(tokens, self.ids.to(tokens.device))

    def numbers(self, tokens: Int[Tensor, "*any"]) -> Int[Tensor, "*any"]:
        """Returns the drafter's numbers of target tokens; it must know all of them."""
        if self.ids is None:
            return tokens
        return torch.searchsorted(self.ids.to(tokens.device), tokens)

    def cut(self, logits: Float[Tensor, "*batch vocab"]) -> Float[Tensor, "*batch known"]:
        """Returns the drafter's part of logits over the target's vocabulary."""
        return logits if self.ids is None else logits[..., self.ids.to(logits.device)]

    def spread(self, logits: Float[Tensor, "*batch known"]) -> Float[Tensor, "*batch vocab"]:
        """Returns logits over the target's vocabulary, -inf for tokens the drafter lacks."""
        if self.ids is None:
            return logits
        full = logits.new_full((*logits.shape[:-1], self.size), float("-inf"))
        ids = self.ids.to(logits.device).expand_as(logits)
        return full.scatter_(-1, ids, logits)  # four times as fast as indexing


def frequent(counts: Int[Tensor, "vocab"], count: int) -> Vocabulary:
    """Returns the vocabulary of the `count` most frequent tokens; ties go to lower ids."""
    size = len(counts)
    if count >= size:
        return Vocabulary(size)
    order = counts.argsort(descending=True, stable=True)
    return Vocabulary(size, order[:count].sort().values)


def count_tokens(texts: Iterable[Sequence[int]], size: int) -> Int[Tensor, "vocab"]:
    """Returns how often each token is in some texts. size: of the target's vocabulary."""
    counts = torch.zeros(size, dtype=torch.long)
    for text in texts:
        counts += torch.bincount(torch.tensor(text, dtype=torch.long), minlength=size)
    return counts
