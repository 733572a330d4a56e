"""A cache for a batch: sequences of different lengths, which are rolled back independently."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import final

from jaxtyping import Float, Int
from torch import Tensor

from outrider.base.pretrained import Model
from outrider.contract.draft import Draft
from outrider.contract.judge import Judge
from outrider.targets.passes.engine import Engine
from outrider.targets.passes.pass_input import Pass


class BatchCache(ABC):
    """Runs passes over the sequences of a batch; each has a number, which it keeps.

    model: the model that reads them.
    """

    model: Model

    @abstractmethod
    def join(self, active: Collection[int]) -> int:
        """Returns the number of a new sequence, in place of one that has ended if any has.

        active: the numbers of the sequences that have not ended.
        """

    @abstractmethod
    def read(
        self, number: int, tokens: Sequence[int], states: Collection[int]
    ) -> dict[int, Float[Tensor, "tokens width"]]:
        """Reads a part of a prompt: in a separate pass, or at the latest with the next draft.

        Returns:
            The requested states, by number.
        """

    @abstractmethod
    def feed(
        self,
        numbers: Sequence[int],
        pending: Sequence[Sequence[int]],
        drafts: Sequence[Draft],
        states: Collection[int],
        last: Int[Tensor, "texts"] | None = None,
        *,
        judges: Sequence[Judge | None] = (),
    ) -> list[Pass]:
        """Appends each sequence's pending tokens and draft, and returns the passes of each.

        last: what replaces the last token of each, where only the device knows it.
        judges: of each draft, if any is to be decided on in the pass.

        They hold the states of these tokens, and the logits of the last len(draft) + 1.
        """

    @abstractmethod
    def retain_rows(self, number: int, count: int, rows: Sequence[int]) -> None:
        """Of a sequence's last `count` tokens, keeps those at `rows`, in that order."""


class BatchEngine(Engine):
    """An engine that reads sequences side by side in its own way; all others have them padded."""

    @abstractmethod
    def new_batch(self, model: Model, sequences: int, capacity: int) -> BatchCache | None:
        """Returns an empty cache for a batch of sequences; None for one that pads them.

        capacity: how many tokens of each to make room for at first.
        """


@final
@dataclass(frozen=True, slots=True)
class NewTokens:
    """The new tokens of one sequence in a pass: pending ones, then a draft.

    row: the sequence's row in the cache. cached: how many tokens that row holds already.
    """

    row: int
    pending: Sequence[int]
    draft: Draft
    cached: int

    @property
    def tokens(self) -> list[int]:
        """Returns the tokens of the pass."""
        return [*self.pending, *self.draft.tokens]

    def __len__(self) -> int:
        return len(self.pending) + len(self.draft)


def part_of(result: Pass, row: int, new: NewTokens, end: int, missing: int) -> Pass:
    """Returns the part of a pass that is about one sequence.

    row: the sequence's row in the result.
    end: where its tokens end in that row.
    missing: how many of the row's first tokens have no logits.
    """
    batch = slice(row, row + 1)
    logits_end = end - missing
    logits = result.logits[batch, logits_end - len(new.draft) - 1 : logits_end]
    states = {number: rows[batch, end - len(new) : end] for number, rows in result.states.items()}
    return Pass(logits, states, result.verdicts[row : row + 1])
