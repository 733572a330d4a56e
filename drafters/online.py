"""Online: an n-gram model that is distilled from the target while it decodes."""

import copy
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Annotated, Any, ClassVar, Self, final

import torch
from jaxtyping import Float
from torch import Tensor

from outrider.base.bounds import Count, checked
from outrider.base.errors import is_int, is_number, require
from outrider.base.expectations import Above, Passes
from outrider.contract.context import Context
from outrider.contract.devices import wide
from outrider.contract.draft import ROOT, Draft, Logits, Verdict
from outrider.contract.drafter import DrafterExample
from outrider.contract.pen import Pen
from outrider.contract.target import Target
from outrider.drafters.ngram import fitted_table, table_file
from outrider.drafters.parts.texts.ngrams import NGramTable, log_distribution
from outrider.drafters.parts.texts.text_memory import RememberingDrafter, TextMemory
from outrider.drafters.parts.trees.shapes import one_by_one
from outrider.drafters.parts.trees.tree_forms import parse_tree

NGram = tuple[int, ...]
Row = tuple[Sequence[int], int, Sequence[int], Sequence[float]]
"""An n-gram, how many distributions were added, the tokens that are kept, and their sums."""

ROUNDING = 1e-9
"""By how much of it the sums after an n-gram may exceed the number of distributions."""


@final
class SoftCounts:
    """For each n-gram, how many distributions were added, and their sum, token by token."""

    def __init__(self) -> None:
        self._rows: dict[NGram, tuple[int, dict[int, float]]] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def add(
        self, context: NGram, tokens: Sequence[int], sums: Sequence[float], added: int = 1
    ) -> None:
        """Adds the tokens that are kept of `added` distributions after `context`, by their sums."""
        before, own = self._rows.pop(context, (0, {}))
        for token, p in zip(tokens, sums, strict=True):
            own[token] = own.get(token, 0.0) + p
        self._rows[context] = before + added, own  # the newest come last

    def rows(self) -> list[Row]:
        """Returns what was added after each n-gram, the newest last; it fits JSON."""
        return [
            (context, added, [*own], [*own.values()])
            for context, (added, own) in self._rows.items()
        ]

    def drop_oldest(self) -> None:
        """Drops the n-gram that nothing was added to for the longest time."""
        del self._rows[next(iter(self._rows))]

    def blended(
        self, lower: Float[Tensor, "vocab"], context: NGram, prior: float, earlier: "SoftCounts"
    ) -> Float[Tensor, "vocab"]:
        """Returns the mean distribution after `context`, with `lower` as `prior` more of them.

        Tokens that were not kept have what is left of the probability, as `lower` divides it.

        earlier: further sums, which count like its own.
        """
        parts = [part._rows[context] for part in (self, earlier) if context in part._rows]
        if not parts:
            return lower
        added = sum(count for count, _ in parts)
        kept = sum(sum(own.values()) for _, own in parts)
        q = lower * ((prior + added - kept) / (prior + added))
        for _, own in parts:
            tokens = torch.tensor(list(own), dtype=torch.long)
            q[tokens] += torch.tensor(list(own.values()), dtype=q.dtype) / (prior + added)
        return q


def rows_of(vocab_size: int) -> Passes:
    """Returns the bound that holds for `rows` of a vocabulary."""

    def are_rows(value: list[Any]) -> bool:
        return all(_is_row(row, vocab_size) for row in value)

    return Passes(are_rows, "of [n-gram, number, tokens, sums]")


def _is_row(row: Any, vocab_size: int) -> bool:
    match row:
        case [[*context], int(added), [*tokens], [*sums]]:
            are_ids = all(is_int(it) and 0 <= it < vocab_size for it in (*context, *tokens))
            are_sums = len(tokens) == len(sums) and all(is_number(p) and p >= 0 for p in sums)
            is_counted = is_int(added) and added > 0
            return are_ids and are_sums and is_counted and sum(sums) <= added * (1 + ROUNDING)
    return False


@final
class Online(RememberingDrafter["Past"]):
    """Learns what the target expects after each n-gram, from every token that it scores.

    Online speculative decoding (Liu et al., 2310.07177) distils the drafter from the target's
    distributions at the tokens of its own drafts, rejected ones included. Here the student is a
    table, so the distillation has a closed form: of all distributions after an n-gram, the mean has
    the least Kullback-Leibler divergence from those that the target had there. With n of them in
    the sum S_m after the last m tokens,

        q_m(x) = (S_m(x) + (prior + rest) q_{m-1}(x)) / (n + prior),

    where `rest` is the probability of the tokens that were not kept. It drafts nothing until it has
    a distribution to begin with.

    order: 1 learns one distribution, 2 one after each token, and so on.
    prior: how many distributions a shorter n-gram counts for.
    keep: how many of the likeliest tokens of a distribution to learn.
    counts: a fitted table to begin with, as in `bigram`: "smollm2" or a .safetensors file. It then
        learns nothing of shorter n-grams than the table has. None for none.
    remember: whether a text begins with what was learned of earlier texts.
    capacity: after how many n-grams to keep that; those that occurred last the longest ago are
        dropped. Each takes some six kilobytes. None for no limit.
    memory: a file that keeps it from run to run.
    tree: the shape of its drafts, see `drafters.parts.trees.tree_forms`. Defaults to a chain.

    Raises `ConfigError` for an order below that of the table, or a table that does not fit.
    """

    examples: ClassVar[tuple[DrafterExample, ...]] = (
        # It has drafted nothing yet, so it knows nothing.
        DrafterExample(text=(0, 1), draft=()),
        # The text 0, 1, 2, 3, 0 is written: after each token it has seen what the target expects.
        DrafterExample(text=(0,), draft=(1, 2, 3, 0), rounds=4, vocab_size=4),
    )

    @checked("drafter")
    def __init__(  # noqa: PLR0913  what it learns, and what of it is kept
        self,
        order: Count = 2,
        prior: Annotated[float, Above(0)] = 1.0,
        *,
        keep: Count = 64,
        counts: str | None = None,
        remember: bool = True,
        capacity: Count | None = 20_000,
        memory: str | None = None,
        tree: Any = None,
    ) -> None:
        super().__init__(partial(Past, capacity), remember, memory)
        self._order, self._prior, self._keep = order, prior, keep
        self._shape = parse_tree(tree)
        self.kind: str = self._shape.kind
        self._counts = counts
        self._table: NGramTable | None = None
        self._shortest = 0  # the tokens of the shortest n-grams that it learns what follows
        self._own = SoftCounts()

    def bind(self, target: Target) -> None:
        super().bind(target)
        if self._counts is not None and self._table is None:
            self._table = fitted_table(table_file(self._counts), target.vocab_size)
            order = self._table.order
            expected = f"at least {order}, as the table"
            require(self._order >= order, "drafter.order", self._order, expected)
            self._shortest = order - 1

    def open(self) -> Self:
        text = copy.copy(self)
        text._own = SoftCounts()
        return text

    def propose(self, context: Context, pen: Pen) -> None:
        if self._table is None and not (self._own or self._past.counts):
            return
        before = context.tokens[-self._order :]

        def logits(path: Sequence[int]) -> Tensor:
            return self._distribution([*before, *path], pen.vocab_size).log()

        self._shape.grow(pen, one_by_one(logits))

    def _distribution(self, text: Sequence[int], vocab_size: int) -> Float[Tensor, "vocab"]:
        """Returns q after a text."""
        if self._table is None:
            q = torch.full((vocab_size,), 1 / vocab_size, dtype=torch.float64)
        else:
            memory = self._table.order - 1
            history = text[len(text) - memory :] if memory else []
            q = torch.from_numpy(log_distribution(self._table, history)).exp()
        for context in self._ngrams(text):
            q = self._own.blended(q, context, self._prior, self._past.counts)
        return q

    def observe(self, context: Context, draft: Draft, logits: Logits, verdict: Verdict) -> None:
        likeliest = wide(logits).softmax(-1).topk(min(self._keep, logits.shape[-1]))
        probs, tokens = likeliest.values.tolist(), likeliest.indices.tolist()
        before = context.tokens[-self._order :]
        for node in range(ROOT, len(draft)):
            text = [*before, *(draft.tokens[above] for above in draft.path(node))]
            for ngram in self._ngrams(text):
                self._own.add(ngram, tokens[node + 1], probs[node + 1])

    def _ngrams(self, text: Sequence[int]) -> list[NGram]:
        """Returns the last tokens of a text that it learns what follows, the fewest first."""
        lengths = range(self._shortest, min(self._order, len(text) + 1))
        return [tuple(text[len(text) - length :]) for length in lengths]

    def remember(self, context: Context) -> None:
        self.learn(self._own.rows())


@final
class Past(TextMemory):
    """What was learned of earlier texts, of at most `capacity` n-grams."""

    def __init__(self, capacity: int | None = None) -> None:
        super().__init__(capacity)
        self.counts: SoftCounts = SoftCounts()

    @staticmethod
    def entry(vocab_size: int) -> Any:
        return Annotated[list[Any], rows_of(vocab_size)]

    def learn(self, entry: Iterable[Row]) -> None:
        for context, added, tokens, sums in entry:
            self.counts.add(tuple(context), tokens, sums, added)
        while self._capacity is not None and len(self.counts) > self._capacity:
            self.counts.drop_oldest()

    def entries(self) -> Iterable[list[Row]]:
        yield self.counts.rows()
