"""TabularTarget: a target whose conditional distributions are all known, for proofs."""

from collections.abc import Sequence
from typing import Annotated, final

import torch
from jaxtyping import Float
from torch import Tensor

from outrider.base.bounds import Count, checked
from outrider.base.errors import require
from outrider.base.expectations import AtLeast
from outrider.contract.context import Tokens
from outrider.contract.draft import ROOT, Draft, Logits, Verdict
from outrider.contract.target import Session, Target
from outrider.targets.passes.cached_model import HIDDEN, SOURCE

STATES = frozenset({HIDDEN, *(f"{HIDDEN}.{layer}" for layer in range(3))})
"""The features of a table without an encoder: all of them are the logits after each token."""


@final
class TabularTarget(Target):
    """A Markov chain: a table has a row of logits for each sequence of the last `order` tokens.

    vocab_size, order: the table has vocab_size ** order rows.
    seed: the seed of the table's random entries.
    sharpness: the spread of its logits; higher is more certain.
    encoder: whether the prompt is an encoder's source rather than the beginning of the text. The
        text then begins with 0, and each row is rolled by the source's token at that position.

    Tokens before the first one count as zeros.
    """

    @checked("target")
    def __init__(
        self,
        vocab_size: Count = 6,
        order: Annotated[int, AtLeast(0)] = 2,
        seed: int = 0,
        sharpness: float = 1.5,
        encoder: bool = False,
    ) -> None:
        self.vocab_size = vocab_size
        self.order = order
        self.encoder = encoder
        self.offers: frozenset[str] = frozenset({SOURCE}) if encoder else STATES
        generator = torch.Generator().manual_seed(seed)
        shape = (vocab_size**order, vocab_size)
        self.table: Tensor = sharpness * torch.randn(
            shape, generator=generator, dtype=torch.float64
        )

    @classmethod
    def of(cls, probs: Float[Tensor, "rows vocab"], order: int) -> "TabularTarget":
        """Returns the target whose table holds `probs`, a row for each sequence of `order` tokens.

        The digits of a row's index in base vocab are its tokens, the latest last.
        """
        target = cls(probs.shape[-1], order)
        rows = probs.shape[-1] ** order
        require(probs.shape[0] == rows, "probs", tuple(probs.shape), f"{rows} rows")
        target.table = probs.double().log()
        return target

    def logits(
        self, tokens: Sequence[int], source: Sequence[int] | None = None
    ) -> Float[Tensor, "vocab"]:
        """Returns the logits of the token after `tokens`."""
        row = self.row(tokens)
        if not source:
            return self.table[row]
        return self.table[row].roll(source[(len(tokens) - 1) % len(source)])

    def row(self, tokens: Sequence[int]) -> int:
        """Returns the row of the table for the token after `tokens`."""
        row = 0
        for token in tokens[max(0, len(tokens) - self.order) :]:
            row = row * self.vocab_size + token
        return row

    def begin(self, prompt: Sequence[int]) -> tuple[list[int], Tokens | None]:
        return ([0], Tokens(list(prompt))) if self.encoder else super().begin(prompt)

    def open(self, tokens: Sequence[int], needs: frozenset[str] = frozenset()) -> Session:
        return _TabularSession(self, *self.begin(tokens), needs & STATES)


@final
class _TabularSession(Session):
    def __init__(
        self,
        target: TabularTarget,
        tokens: list[int],
        source: Tokens | None,
        needs: frozenset[str],
    ) -> None:
        self._target, self._needs = target, needs
        self._scored: list[list[int]] = []
        self._tokens = tokens
        self._source = source
        self._draft = Draft()

    def score(self, draft: Draft) -> Logits:
        self._draft = draft
        texts = [
            self._tokens + self._tokens_on(draft.path(node)) for node in range(ROOT, len(draft))
        ]
        self._scored = texts
        if not self._source:
            return self._target.table[[self._target.row(text) for text in texts]]
        return torch.stack([self._target.logits(text, self._source) for text in texts])

    def commit(self, verdict: Verdict) -> None:
        text = [*self._tokens, *self._tokens_on(verdict.accepted)]
        self._tokens, self._scored = [*text, verdict.next_token], [text]

    def features(self) -> dict[str, Tensor]:
        if not (self._needs and self._scored):
            return {}
        first, *nodes = self._scored
        texts = [*(first[:length] for length in range(1, len(first) + 1)), *nodes]
        states = self._target.table[[self._target.row(text) for text in texts]]
        return dict.fromkeys(self._needs, states)

    def _tokens_on(self, path: Sequence[int]) -> list[int]:
        return [self._draft.tokens[node] for node in path]
