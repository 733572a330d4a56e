"""Drafters for the kit, which write every kind of draft from tables that are known."""

from collections.abc import Mapping, Sequence
from typing import final

import torch

from outrider.contract.context import Context
from outrider.contract.draft import ROOT
from outrider.contract.drafter import Drafter
from outrider.contract.pen import Pen
from outrider.targets.tabular import TabularTarget

CHAINS = ("drawn", "written", "mixed", "exact", "disjoint", "silent", "short")
"""The kinds of `ChainDrafter`."""
TREES = ("paths", "iid", "distinct", "deterministic")
"""The kinds of `TreeDrafter`."""
Shape = Mapping[tuple[int, ...], int]
"""The number of children of each node that has some, by its path of ranks: () is the root."""


@final
class ChainDrafter(Drafter):
    """Drafts chains of one kind, from a random table over the last two tokens.

    "drawn": every token is drawn from q. "written": the likeliest token of q is written.
    "mixed": drawn and written in turn. "exact": drawn from p itself. "disjoint": drawn from a q
    without mass on half of the tokens. "silent": nothing. "short": drawn, but ended after a token 0
    (which is legitimate, since that token was submitted). "late": the last two are drawn, and those
    before them the target's likeliest, so that there are few drafts however deep they are.

    tied: round the logits to whole numbers, so that many of them are equal.
    """

    def __init__(
        self, target: TabularTarget, kind: str, seed: int = 7, *, tied: bool = False
    ) -> None:
        self._kind, self._of_target = kind, target.logits
        self._logits = _table(target, seed, tied).logits
        if kind == "exact":
            self._logits = target.logits

    def propose(self, context: Context, pen: Pen) -> None:
        tokens = context.tokens[:]
        while pen.open and self._kind != "silent":
            logits = self._logits(tokens)
            if self._kind == "disjoint":
                logits = logits.clone()
                logits[len(tokens) % 2 :: 2] = float("-inf")
            if self._kind == "late" and len(pen) < pen.gamma - 2:
                tokens.append(pen.write(int(self._of_target(tokens).argmax())))
            elif self._kind == "written" or (self._kind == "mixed" and len(tokens) % 2):
                tokens.append(pen.write(int(logits.argmax())))
            else:
                tokens.append(pen.draw(logits))
            if self._kind == "short" and tokens[-1] == 0:
                return


@final
class TreeDrafter(Drafter):
    """Drafts a tree, from a random table over the last two tokens.

    kind: one of `outrider.contract.draft.KINDS`. "deterministic" siblings are the likeliest tokens.
    shape: of the tree. Defaults to two siblings after each node; "paths" only branch at the root.
    tied: round the logits to whole numbers, so that many of them are equal.
    table: draft from this one in place of a random one.
    late: write the target's likeliest token where there is one child.
    """

    def __init__(
        self,
        target: TabularTarget,
        kind: str,
        seed: int = 7,
        *,
        shape: Shape | None = None,
        tied: bool = False,
        table: TabularTarget | None = None,
        late: bool = False,
    ) -> None:
        self.kind = kind
        self._late, self._shape = late, shape
        self._logits = (table or _table(target, seed, tied)).logits
        self._of_one = target.logits if late else self._logits

    def propose(self, context: Context, pen: Pen) -> None:
        layer: list[tuple[int, tuple[int, ...]]] = [(ROOT, ())]
        texts = {ROOT: context.tokens[:]}
        for _ in range(pen.gamma):
            parents, layer = layer, []
            if self.kind == "paths" and parents[0][1] and pen.room < len(parents):
                return  # a rule for paths takes equal ones
            for parent, path in parents:
                width = self._width(path)
                if pen.room < width:
                    return
                logits = (self._of_one if width == 1 else self._logits)(texts[parent])
                children = self._children(logits, width, pen, parent)
                for rank, node in enumerate(children):
                    texts[node] = [*texts[parent], pen.token(node)]
                    layer.append((node, (*path, rank)))

    def _width(self, path: tuple[int, ...]) -> int:
        if self.kind == "paths" and path:
            return 1
        return 2 if self._shape is None else self._shape.get(path, 0)

    def _children(self, logits: torch.Tensor, width: int, pen: Pen, parent: int) -> Sequence[int]:
        if not width:
            return ()
        if self.kind != "deterministic" and not (self._late and width == 1):
            return pen.branch(logits, width, replacement=self.kind != "distinct", after=parent)
        first = pen.last + 1
        for token in logits.topk(min(width, len(logits))).indices.tolist():
            if pen.room:
                pen.write(token, after=parent)
        return range(first, pen.last + 1)


@final
class SeparateDrafter(Drafter):
    """Draws siblings in separate calls of the pen, each from a random table of its own, without the
    tokens of those before it.

    siblings: how many.
    """

    kind = "distinct"

    def __init__(self, target: TabularTarget, siblings: int) -> None:
        self._tables = [_table(target, 7 + rank, tied=False) for rank in range(siblings)]

    def propose(self, context: Context, pen: Pen) -> None:
        for table in self._tables[: pen.room if pen.gamma else 0]:
            logits = table.logits(context.tokens[:]).clone()
            logits[[pen.token(node) for node in range(len(pen))]] = float("-inf")
            pen.draw(logits, after=ROOT)


def _table(target: TabularTarget, seed: int, tied: bool) -> TabularTarget:
    table = TabularTarget(target.vocab_size, 2, seed, sharpness=2.5)
    if tied:
        table.table = torch.round(table.table / 2)
    return table
