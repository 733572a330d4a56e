"""TokenRecycling: a tree of the tokens that the target last found likely after each token."""

import copy
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Annotated, Any, ClassVar, Self, final

from outrider.base.bounds import Count, checked
from outrider.base.expectations import AtLeast, Within
from outrider.contract.context import Context
from outrider.contract.draft import ROOT, Draft, Logits, Verdict
from outrider.contract.drafter import DrafterExample
from outrider.contract.pen import Pen
from outrider.drafters.parts.texts.text_memory import RememberingDrafter, TextMemory
from outrider.drafters.parts.trees.shapes import Path, best_widths

ACCEPTANCE = (0.5, 0.14, 0.07, 0.045, 0.03, 0.025, 0.02, 0.015)
"""Roughly how often the n-th candidate after a token is the one accepted; shapes the tree."""


@final
class TokenRecycling(RememberingDrafter["Past"]):
    """Recalls what the target found likely after each token (Token Recycling, 2408.08696).

    For each token it keeps the `candidates` likeliest next tokens, by the target's logits the last
    time that a draft had this token, accepted or rejected. A draft is a tree from that table: the
    candidates after the text's last token, the candidates after each of these, and so on. All of
    them are fixed before any random number of the round, so any rule for deterministic drafts keeps
    the distribution exact.

    The paper's tree of 80 nodes is fixed. Here it is the best one for the run's `gamma` and
    `budget` (Sequoia, 2402.12374), so set a `budget`, such as 32.

    candidates: how many next tokens to keep for each token, k in the paper.
    remember: whether a text begins with the table of earlier texts, as in the paper.
    capacity: of how many tokens to keep the candidates from text to text; those that the target saw
        last stay. Defaults to all of the vocabulary.
    memory: a file that keeps this table from run to run.
    """

    examples: ClassVar[tuple[DrafterExample, ...]] = (
        # The text 0, 1, 2, 3, 0 is written: after 0 the target found 1 the likeliest, then 2.
        DrafterExample(
            text=(0,),
            draft=(1, 2, 2, 3, 3, 0),
            parents=(-1, -1, 0, 0, 1, 1),
            rounds=4,
            gamma=2,
            budget=6,
            vocab_size=4,
            settings={"candidates": 2},
        ),
    )

    kind = "deterministic"

    @checked("drafter")
    def __init__(
        self,
        candidates: Count = 8,
        remember: bool = True,
        capacity: Count | None = None,
        memory: str | None = None,
    ) -> None:
        self._candidates = candidates
        super().__init__(partial(Past, capacity), remember, memory)
        self._next: dict[int, list[int]] = {}

    def open(self) -> Self:
        text = copy.copy(self)
        text._next = {}
        return text

    def propose(self, context: Context, pen: Pen) -> None:
        acceptance = ACCEPTANCE + (ACCEPTANCE[-1],) * (self._candidates - len(ACCEPTANCE))
        widths = best_widths(acceptance[: self._candidates], pen.room, pen.gamma)
        layer: list[tuple[int, Path, int]] = [(ROOT, (), context.tokens[-1])]
        while layer:
            children: list[tuple[int, Path, int]] = []
            for node, path, token in layer:
                candidates = self._next.get(token) or self._past.next.get(token) or []
                for rank, following in enumerate(candidates[: widths.get(path, 0)]):
                    if pen.room < 1:
                        return
                    pen.write(following, after=node)
                    children.append((pen.last, (*path, rank), following))
            layer = children

    def observe(self, context: Context, draft: Draft, logits: Logits, verdict: Verdict) -> None:
        best = logits.topk(min(self._candidates, logits.shape[-1])).indices.tolist()
        # Of several nodes with one token, the first counts: it has the likeliest path.
        tokens = [context.tokens[-1], *draft.tokens]
        self._next |= dict(zip(reversed(tokens), reversed(best), strict=True))

    def remember(self, context: Context) -> None:
        self.learn([[token, *following] for token, following in self._next.items()])


@final
class Past(TextMemory):
    """The table as earlier texts left it, the newest rows last, at most `capacity` of them."""

    def __init__(self, capacity: int | None = None) -> None:
        super().__init__(capacity)
        self.next: dict[int, list[int]] = {}

    @staticmethod
    def entry(vocab_size: int) -> Any:
        return Sequence[
            Annotated[Sequence[Annotated[int, Within(f"[0, {vocab_size})")]], AtLeast(2)]
        ]

    def learn(self, entry: Sequence[list[int]]) -> None:
        for token, *following in entry:
            self.next.pop(token, None)  # the newest row comes last
            self.next[token] = following
        while self._capacity is not None and len(self.next) > self._capacity:
            del self.next[next(iter(self.next))]

    def entries(self) -> Iterable[list[list[int]]]:
        yield [[token, *following] for token, following in self.next.items()]
