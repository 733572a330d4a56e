"""A target in a few lines that has all that attention has, so that faults can be put into it."""

from collections.abc import Sequence

import torch
from torch import Tensor

from outrider import BatchTarget, Draft, Session, Target, Verdict
from outrider.decoding.batches.batch_target import score_one_by_one

VOCABULARY, POSITIONS = 7, 64
TABLE = torch.randn(POSITIONS, VOCABULARY, VOCABULARY, generator=torch.Generator().manual_seed(0))
Seen = list[tuple[int, int]]


class Plain(Target):
    """A toy with all that attention has: a token sees those before it, each at its position.

    The logits are the mean of a row for each token that is seen, and for its position.
    """

    vocab_size, max_length, eos = VOCABULARY, POSITIONS, frozenset({0})
    offers = frozenset({"states"})

    def open(self, tokens: Sequence[int], needs: frozenset[str] = frozenset()) -> Session:
        return PlainSession(list(tokens), needs)


class PlainSession(Session):
    def __init__(self, tokens: list[int], needs: frozenset[str]) -> None:
        self.cache: Seen = []
        self.pending, self.draft, self.needs = tokens, Draft(), needs
        self.nodes: Seen = []

    def positions(self) -> list[int]:
        """Returns where the draft's nodes stand, counted from the last token of the text."""
        return [len(self.draft.path(node)) for node in range(len(self.draft))]

    def seen(self, node: int) -> list[int]:
        """Returns the nodes that a node sees."""
        return list(self.draft.path(node))

    def score(self, draft: Draft) -> Tensor:
        self.draft, known = draft, len(self.cache)
        self.cache += [(token, known + i) for i, token in enumerate(self.pending)]
        last = len(self.cache) - 1
        nodes = [(t, last + p) for t, p in zip(draft.tokens, self.positions(), strict=True)]
        rows = [self.cache] + [
            self.cache + [nodes[at] for at in self.seen(node)] for node in range(len(draft))
        ]
        self.nodes = nodes
        return torch.stack([self.row(row) for row in rows])

    def row(self, seen: Seen) -> Tensor:
        table = TABLE.double()
        return 4 * torch.stack([table[position, token] for token, position in seen]).mean(0)

    def commit(self, verdict: Verdict) -> None:
        self.cache += [self.nodes[node] for node in verdict.accepted]
        self.nodes = []
        self.pending = [verdict.next_token]

    def features(self) -> dict[str, Tensor]:
        return {name: torch.tensor(self.cache + self.nodes).double() for name in self.needs}


class PlainBatch(Plain, BatchTarget):
    """Serves batches, and passes."""

    def open_together(
        self, prompts: Sequence[Sequence[int]], needs: frozenset[str] = frozenset()
    ) -> list[Session]:
        return [self.open(prompt, needs) for prompt in prompts]

    def score_together(self, sessions: Sequence[Session], drafts: Sequence[Draft]) -> list[Tensor]:
        return score_one_by_one(sessions, drafts)

    def join(
        self,
        sessions: Sequence[Session],
        prompt: Sequence[int],
        needs: frozenset[str] = frozenset(),
    ) -> Session | None:
        return self.open(prompt, needs)
