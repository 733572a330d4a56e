"""LookaheadDecoding: n-grams that the target itself guesses, in the pass that scores the draft."""

import copy
from typing import Annotated, ClassVar, Self, final

from jaxtyping import Float
from torch import Tensor

from outrider.base.bounds import Count, checked
from outrider.base.expectations import AtLeast
from outrider.contract.composition import ask
from outrider.contract.context import Context, Tokens
from outrider.contract.draft import ROOT, Draft
from outrider.contract.drafter import Drafter, DrafterExample
from outrider.contract.pen import Pen
from outrider.contract.sampling import likeliest
from outrider.contract.target import Target
from outrider.drafters.parts.trees.merged_paths import MergedPaths
from outrider.targets.passes.masks import context_window


@final
class LookaheadDecoding(Drafter):
    """Lookahead decoding (Fu et al. 2402.02057), which needs no draft model.

    A window of guesses for the next `window` positions, ngram - 1 rows deep, is scored along with
    each draft: the first row as a chain, and each column of the other rows as what may follow its
    token. The target's likeliest tokens after the last row become a new row (a Jacobi iteration),
    and each column an n-gram for the pool. A draft is the tree of n-grams in the pool that begin
    with the text's last token. The candidates are fixed before any random number of the round,
    so any rule for deterministic drafts keeps the distribution exact.

    window: the number of columns, W in the paper.
    ngram: the length of the n-grams, N.
    candidates: how many n-grams to keep for each first token, G; the newest stay.

    A draft has up to candidates * (ngram - 1) tokens, so set `budget` to that. The window's tokens
    are scored on top of it, up to where they would leave the target's context window.
    """

    examples: ClassVar[tuple[DrafterExample, ...]] = (
        DrafterExample(
            text=(0,),
            draft=(1, 2, 0, 1),
            parents=(-1, 0, -1, 2),
            rounds=5,
            gamma=2,
            budget=6,
            vocab_size=5,
            settings={"window": 3, "candidates": 2},
        ),
        DrafterExample(
            text=(0,),
            draft=(4, 0),
            rounds=6,
            gamma=2,
            budget=6,
            vocab_size=5,
            settings={"window": 3, "candidates": 2},
        ),
    )

    kind = "deterministic"

    @checked("drafter")
    def __init__(
        self, window: Count = 5, ngram: Annotated[int, AtLeast(2)] = 3, candidates: Count = 5
    ) -> None:
        self._window = window
        self._ngram = ngram
        self._candidates = candidates
        self._longest: int | None = None
        self._forget()

    def bind(self, target: Target) -> None:
        self._longest = target.max_length
        if self._longest is None and target.model is not None:  # its model may still have a limit
            self._longest = context_window(target.model)

    def _forget(self) -> None:
        self._text = Tokens([])
        self._rows: list[list[int]] = []
        self._pool: dict[int, list[tuple[int, ...]]] = {}

    def open(self) -> Self:
        text = copy.copy(self)
        text._forget()
        return text

    def propose(self, context: Context, pen: Pen) -> None:
        text = context.tokens
        if len(text) <= len(self._text) or self._text.shared(text) < len(self._text):
            self._forget()  # another text, or the same one from its start
        self._text = text
        if not self._rows:  # to begin with, any guess will do, such as the text's latest tokens
            depth = self._ngram - 1
            guesses = [text[-1 - it % len(text)] for it in range(self._window * depth)]
            self._rows = [guesses[row::depth] for row in range(depth)]
        if pen.gamma < 1:
            return
        tree = MergedPaths(pen)
        for ngram in reversed(self._pool.get(text[-1], ())):  # the newest first
            tree.add(ngram[: pen.gamma])
        deepest = self._window + self._ngram - 2
        if self._longest is None or len(text) + deepest <= self._longest:
            self._ask(pen)

    def _ask(self, pen: Pen) -> None:
        """Asks for the window: the first row as a chain, and a branch below each of its tokens."""
        chain = ROOT
        ends: list[int] = []
        for column in range(self._window):
            chain = ask(pen, self._rows[0][column], after=chain)
            ends.append(chain)
        for row in self._rows[1:]:
            ends = [ask(pen, token, after=end) for token, end in zip(row, ends, strict=True)]

    def answer(self, probes: Draft, logits: Float[Tensor, "probes vocab"]) -> None:
        new_row = likeliest(logits[-self._window :]).tolist()
        for column, token in enumerate(new_row):
            first, *rest = (row[column] for row in self._rows)
            ngrams = self._pool.setdefault(first, [])
            ngram = (*rest, token)
            if ngram in ngrams:
                ngrams.remove(ngram)
            ngrams.append(ngram)
            del ngrams[: -self._candidates]
        self._rows = [*self._rows[1:], new_row]
