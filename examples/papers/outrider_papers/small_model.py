"""What the drafters of this package have in place of a network: counts of n-grams."""

import copy
from collections.abc import Sequence
from typing import Self

import torch
from torch import Tensor

from outrider import Context, Drafter, Target
from outrider.drafters.ngram import fitted_table, table_file
from outrider.drafters.parts.texts.ngrams import RunningCounts, log_distribution


class SmallModel(Drafter):
    """A model that knows what followed the last token or two.

    order: 2 looks at one token, 3 at two.
    counts: "context" for those of the text so far, "smollm2" for the table that Outrider brings.
    """

    def __init__(self, order: int = 2, counts: str = "context") -> None:
        self.order, self.counts = order, counts

    def bind(self, target: Target) -> None:
        if self.counts == "context":
            self.table = RunningCounts(target.vocab_size, self.order)
        else:
            self.table = fitted_table(table_file(self.counts), target.vocab_size)

    def open(self) -> Self:
        text = copy.copy(self)
        if self.counts == "context":
            text.table = RunningCounts(self.table.vocab_size, self.order)
        return text

    def read(self, context: Context) -> list[int]:
        """Counts what is new in a text; returns its last tokens, as many as the model looks at."""
        if self.counts == "context":
            self.table.follow(context.tokens)
        return context.tokens[-(self.order - 1) :]

    def after(self, text: Sequence[int]) -> Tensor:
        """Returns the logits [vocab] of the token after a text."""
        last = text[max(0, len(text) - self.order + 1) :]
        return torch.from_numpy(log_distribution(self.table, last))

    def block(self, text: Sequence[int], places: int, width: int = 8) -> Tensor:
        """Returns the logits [places, vocab] of the next tokens, each without those before it.

        A place's distribution is a sum over the `width` likeliest tokens of the place before it,
        as a network that writes a block in one pass learns it.
        """
        rows = [self.after(text)]
        while len(rows) < places:
            best = rows[-1].topk(min(width, len(rows[-1])))
            after = torch.stack([self.after([token]) for token in best.indices.tolist()])
            rows.append((after + best.values.log_softmax(0)[:, None]).logsumexp(0))
        return torch.stack(rows)
