"""Trees: the shapes that a draft can have, and how a drafter's distributions fill them."""

import math
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, final

import torch
from jaxtyping import Float
from torch import Tensor

from outrider.contract.deferred import can_defer_reads
from outrider.contract.devices import wide
from outrider.contract.draft import ROOT
from outrider.contract.pen import Pen
from outrider.contract.programs import at_once, can_draw_ahead
from outrider.contract.tree_programs import Level, Play, draw_siblings, play_trees

Path = tuple[int, ...]
"""A node of a shape: which child to take at each step from the root, the first being 0."""

NextLogits = Callable[[Sequence[Sequence[Any]]], Float[Tensor, "paths vocab"]]
"""Maps paths of drafted tokens, all of one length, to the logits of the token after each.

They are ids; those of a chain may be tensors [1] on the device of the logits, see `Pen.chain`.
"""


class Shape(ABC):
    """A shape that drafts grow into.

    kind: how siblings are chosen, one of KINDS.
    plays: whether a program may grow it for several texts.
    """

    kind: str
    plays: ClassVar[bool] = False

    @abstractmethod
    def grow(self, pen: Pen, next_logits: NextLogits) -> None:
        """Writes a tree of this shape, within the pen's depth and budget."""

    def play(self, pens: Mapping[int, Pen], play: Play, rows: int = 1) -> bool:
        """Does what `grow` does by one program for all alike, and returns whether it could.

        pens, rows: as for `play_chains`.
        """
        points = self.kind == "deterministic"
        if not (self.plays and (points or all(map(can_draw_ahead, pens.values())))):
            return False
        alike = defaultdict[tuple[int, int], dict[int, Pen]](dict)
        for row, pen in pens.items():
            alike[pen.gamma, pen.room][row] = pen
        for group in alike.values():
            self._play_alike(group, play, rows)
        return True

    def _play_alike(self, pens: Mapping[int, Pen], play: Play, rows: int) -> None:
        """Plays drafts of one depth and size; a shape that `plays` overrides it."""

    def grow_at_once(self, pen: Pen, logits: Float[Tensor, "depths vocab"]) -> None:
        """Writes a tree whose tokens do not depend on those before them in the draft.

        logits: of the tokens at each depth; they limit how deep the draft can be.
        """
        pen.limit(len(logits))

        def play(_: Any, __: Any, grown: Any, ___: Any, shares: Tensor) -> Any:
            return grown(*at_once(logits[:, None]), wide(shares, logits.device))

        if can_defer_reads(pen.sheet, logits[0]) and self.play({0: pen}, play):
            return

        def next_logits(paths: Sequence[Sequence[Any]]) -> Tensor:
            return logits[len(paths[0])].expand(len(paths), -1)

        self.grow(pen, next_logits)


@final
@dataclass(frozen=True)
class Chain(Shape):
    """One token after the other, without branches."""

    kind: str = "chain"

    def grow(self, pen: Pen, next_logits: NextLogits) -> None:
        path: list[Any] = []

        def after(token: Any) -> Tensor:
            path.append(token)
            return next_logits([path])[0]

        if pen.open:
            pen.chain(next_logits([path])[0], after)


@final
@dataclass(frozen=True)
class Static(Shape):
    """A shape that is known before drafting.

    widths: the number of children of each node, by its path, or of all nodes of each depth; 0 for
        what is not listed.
    """

    widths: dict[Path, int] | tuple[int, ...]
    kind: str
    plays = True

    def grow(self, pen: Pen, next_logits: NextLogits) -> None:
        layer: list[tuple[int, Path, list[int]]] = [(ROOT, (), [])]
        for depth in range(pen.gamma):
            parents = [parent for parent in layer if self.width(parent[1])]
            if not (parents and pen.room) or self._is_cut(depth, pen.room, len(parents)):
                return
            logits = next_logits([tokens for *_, tokens in parents])
            widths = [self.width(path) for _, path, _ in parents]
            written = self._children(pen, logits, widths, [node for node, *_ in parents])
            layer = []
            for (_, path, tokens), children in zip(parents, written, strict=False):
                layer += [
                    (child, (*path, rank), [*tokens, pen.token(child)])
                    for rank, child in enumerate(children)
                ]

    def _play_alike(self, pens: Mapping[int, Pen], play: Play, rows: int) -> None:
        points, distinct = self.kind == "deterministic", self.kind == "distinct"
        if levels := tuple(self._levels(next(iter(pens.values())))):
            play_trees(pens, play, levels, rows=rows, points=points, replacement=not distinct)

    def _levels(self, pen: Pen) -> Iterator[Level]:
        """Yields the nodes of each level that have children, as far as there is room."""
        greedy, room = pen.sheet.sampling.greedy, pen.room
        most = {"deterministic": pen.vocab_size, "distinct": 1 if greedy else pen.vocab_size}
        layer: list[tuple[int, int, Path]] = [(0, 0, ())]
        for depth in range(pen.gamma):
            parents = [node for node in layer if self.width(node[-1])]
            if not (parents and room) or self._is_cut(depth, room, len(parents)):
                return
            level, layer = list[tuple[int, int, int]](), []
            for row, rank, path in parents:
                if count := min(self.width(path), most.get(self.kind, room), room):
                    layer += [(len(level), child, (*path, child)) for child in range(count)]
                    level.append((row, rank, count))
                    room -= count
            yield tuple(level)

    def _is_cut(self, depth: int, room: int, parents: int) -> bool:
        """Returns whether there is a level that can't be had in part."""
        return self.kind == "paths" and depth > 0 and room < parents  # its rules take equal lengths

    def _children(
        self, pen: Pen, logits: Tensor, widths: Sequence[int], nodes: Sequence[int]
    ) -> Iterator[Sequence[int]]:
        """Writes the children of nodes, as far as there is room, and returns those of each."""
        if self.kind != "deterministic":
            yield from draw_siblings(
                pen, logits, widths, nodes, replacement=self.kind != "distinct"
            )
            return
        best = logits.topk(min(max(widths), logits.shape[-1]))
        likeliest = zip(best.values.tolist(), best.indices.tolist(), strict=True)
        for (scores, tokens), width, node in zip(likeliest, widths, nodes, strict=True):
            first = pen.last + 1
            for score, token in zip(scores[:width], tokens, strict=False):
                if pen.room and score > -math.inf:  # a drafter may lack some of the target's
                    pen.write(token, after=node)
            yield range(first, pen.last + 1)

    def width(self, path: Path) -> int:
        """Returns the number of children of a node; the kind "paths" only branches at the root."""
        if self.kind == "paths" and path:
            return 1
        if isinstance(self.widths, dict):
            return self.widths.get(path, 0)
        return self.widths[len(path)] if len(path) < len(self.widths) else 0


@final
@dataclass(frozen=True)
class Sequoia(Shape):
    """The shape with the most accepted tokens for its budget (Sequoia, 2402.12374, section 3.1).

    acceptance: the probability that the n-th child of a node is the one accepted, for each n.
    """

    acceptance: tuple[float, ...]
    kind: str = "distinct"
    plays = True

    def grow(self, pen: Pen, next_logits: NextLogits) -> None:
        if pen.gamma > 0 and pen.room > 0:
            self._best(pen).grow(pen, next_logits)

    def _play_alike(self, pens: Mapping[int, Pen], play: Play, rows: int) -> None:
        self._best(next(iter(pens.values())))._play_alike(pens, play, rows)

    def _best(self, pen: Pen) -> Static:
        return Static(best_widths(self.acceptance, pen.room, pen.gamma), self.kind)


@cache
def best_widths(acceptance: tuple[float, ...], budget: int, depth: int) -> dict[Path, int]:
    """Returns the number of children of each node in the best tree (2402.12374, section 3.1).

    The best tree below a node depends only on how many nodes are left, how deep they may go, and
    which of its parent's children comes next.

    acceptance: the probability that the n-th child of a node is the one accepted, for each n.
    budget: the most nodes, without the root.
    depth: the most levels below the root.
    """

    @cache
    def best(nodes: int, levels: int, rank: int) -> tuple[float, int]:
        """Returns the most tokens to gain from children `rank` on, and the size of its subtree."""
        if nodes == 0 or levels == 0 or rank == len(acceptance):
            return 0.0, 0
        result = (0.0, 0)
        for size in range(1, nodes + 1):
            below, _ = best(size - 1, levels - 1, 0)
            beside, _ = best(nodes - size, levels, rank + 1)
            value = acceptance[rank] * (1 + below) + beside
            if value > result[0] + 1e-15:
                result = value, size
        return result

    widths: dict[Path, int] = {}

    def add_children(path: Path, nodes: int, levels: int) -> None:
        rank = 0
        while size := best(nodes, levels, rank)[1]:
            add_children((*path, rank), size - 1, levels - 1)
            nodes, rank = nodes - size, rank + 1
        if rank:
            widths[path] = rank

    add_children((), budget, depth)
    return widths


def one_by_one(logits: Callable[[Sequence[int]], Float[Tensor, "vocab"]]) -> NextLogits:
    """Returns a `NextLogits` for a drafter that maps one path of drafted tokens to logits."""
    return lambda paths: torch.stack([logits(path) for path in paths])
