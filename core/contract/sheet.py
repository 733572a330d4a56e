"""Sheet: a draft and its questions as they are written, by one pen or by several in turn."""

from collections.abc import Callable, Sequence
from typing import final

from torch import Tensor

from outrider.contract.draft import ROOT, Draft

Drawn = tuple[int, Tensor | None]
"""A token, and the distribution that it was drawn from; None if it was written."""


@final
class Sheet:
    """What has been written so far.

    more: the policy's answer to whether to go on, given the draft so far.
    stopped: whether the policy has ended the draft.
    """

    def __init__(self, more: Callable[[Draft], bool] | None) -> None:
        self.stopped: bool = False
        self.tokens: list[int] = []
        self.asked: list[tuple[int, int]] = []
        self._more = more
        self._parents: list[int] = []
        self._depths: list[int] = []
        self._calls: list[int] = []
        self._probs: list[Tensor | None] = []
        self._logits: list[Tensor | None] = []

    def depth(self, node: int) -> int:
        """Returns the number of tokens from the context to `node`; 0 for the context itself."""
        return 0 if node == ROOT else self._depths[node]

    def path(self, node: int) -> list[int]:
        """Returns the tokens from the context to `node`, which is the last of them."""
        tokens: list[int] = []
        while node != ROOT:
            tokens.append(self.tokens[node])
            node = self._parents[node]
        return tokens[::-1]

    def submit(self, drawn: Sequence[Drawn], parent: int, logits: Tensor | None) -> None:
        """Adds the children that one call of a pen wrote, and asks the policy whether to go on."""
        first = len(self.tokens)
        # The drafter may reuse its buffer, and the row may be a view of a large tensor.
        kept = None if logits is None else logits.clone()
        for token, probs in drawn:
            self.tokens.append(token)
            self._parents.append(parent)
            self._depths.append(1 + self.depth(parent))
            self._probs.append(probs)
            self._logits.append(kept)
            self._calls.append(first)
        if self._more is not None:
            self.stopped = not self._more(self.draft())

    def draft(self) -> Draft:
        """Returns the draft written so far."""
        return Draft(
            tuple(self.tokens),
            tuple(self._parents),
            tuple(self._probs),
            tuple(self._logits),
            tuple(self._calls),
        )

    def questions(self) -> Draft:
        """Returns the questions as a tree of written tokens.

        A question that continues node n of the draft has -2 - n as its parent; see `Draft.joined`.
        """
        tokens, parents = zip(*self.asked, strict=True) if self.asked else ((), ())
        return Draft(tokens, parents, (None,) * len(tokens))
