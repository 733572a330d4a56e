"""Trees: the shapes that a draft can have, and how a drafter's distributions fill them."""

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, final

import torch
from jaxtyping import Float
from torch import Tensor

from outrider.contract.draft import ROOT
from outrider.contract.pen import Pen
from outrider.errors import ConfigError, is_int, require

Path = tuple[int, ...]
"""A place in a shape: which child to take at each step, 0 being the first."""

NextLogits = Callable[[Sequence[int], Sequence[Sequence[int]]], Float[Tensor, "rows vocab"]]
"""From nodes of one depth, and the tokens on the path to each, to the logits of what follows."""

FORMS = (
    "a shape: 3x2x1 (siblings drawn without replacement), iid:3x2, paths:4, top:3x2 (the likeliest),"
    " [[0],[0,0],[1]] or top:[[0],[0,0],[1]] (paths of ranks), dynamic:8, sequoia:.6,.2,.1"
)


class Shape(ABC):
    """A shape that drafts grow into.

    kind: how its siblings come about, of `outrider.contract.draft.KINDS`.
    """

    kind: str

    @abstractmethod
    def grow(self, pen: Pen, probs: NextLogits) -> None:
        """Writes a tree with the pen, as deep as it may and as large as its budget."""


@final
@dataclass(frozen=True)
class Chain(Shape):
    """No tree: one token after the other."""

    kind: str = "chain"

    def grow(self, pen: Pen, probs: NextLogits) -> None:
        path: list[int] = []
        while pen.open:
            path.append(pen.draw(probs([pen.last], [path])[0]))


@final
@dataclass(frozen=True)
class Static(Shape):
    """A shape that is known beforehand. widths: of each place, how many children it has."""

    widths: dict[Path, int]
    kind: str

    def grow(self, pen: Pen, probs: NextLogits) -> None:
        layer: list[tuple[int, Path, list[int]]] = [(ROOT, (), [])]
        for _ in range(pen.gamma):
            layer = [each for each in layer if self.width(each[1])]
            if not layer:
                return
            logits = probs([node for node, *_ in layer], [tokens for *_, tokens in layer])
            parents, layer = layer, []
            for (node, place, tokens), row in zip(parents, logits, strict=True):
                width = min(self.width(place), pen.room)
                if width < 1:
                    return
                children = _children(pen, row, width, self.kind, node)
                layer += [
                    (child, (*place, rank), [*tokens, pen.token(child)])
                    for rank, child in enumerate(children)
                ]

    def width(self, place: Path) -> int:
        """Returns how many children a place has; paths go on as chains."""
        if self.kind == "paths" and place:
            return 1
        return self.widths.get(place, 0)


@final
@dataclass(frozen=True)
class Levels(Shape):
    """The same width at every place of a depth. widths: by depth; nothing grows below them."""

    widths: tuple[int, ...]
    kind: str

    def grow(self, pen: Pen, probs: NextLogits) -> None:
        places: dict[Path, int] = {}
        layer: list[Path] = [()]
        for width in self.widths[: pen.gamma]:
            places |= dict.fromkeys(layer, width)
            layer = [(*place, rank) for place in layer for rank in range(width)]
        Static(places, self.kind).grow(pen, probs)


@final
@dataclass(frozen=True)
class Dynamic(Shape):
    """EAGLE-2's tree (2406.16858, section 4): of each depth the `width` places that are likeliest as
    a whole are expanded, and in the end the likeliest of all are kept, up to the budget.
    """

    width: int
    kind: str = "deterministic"

    def grow(self, pen: Pen, probs: NextLogits) -> None:
        if pen.gamma < 1 or pen.room < 1:
            return
        tokens: list[list[int]] = []  # of each place the path to it, parents first
        parents, values = list[int](), list[float]()
        layer = [ROOT]
        for _ in range(pen.gamma):
            paths = [tokens[place] if place != ROOT else [] for place in layer]
            best = probs(layer, paths).float().log_softmax(-1).topk(min(self.width, pen.vocab_size))
            fresh = []
            for place, path, scores, ids in zip(
                layer, paths, best.values.tolist(), best.indices.tolist(), strict=True
            ):
                for score, token in zip(scores, ids, strict=True):
                    if score > -math.inf:
                        fresh.append(len(tokens))
                        tokens.append([*path, token])
                        parents.append(place)
                        values.append(score + (values[place] if place != ROOT else 0.0))
            layer = sorted(fresh, key=lambda place: (-values[place], place))[: self.width]
        # No place is likelier than its parent, and of equals the earlier goes first.
        kept = sorted(range(len(tokens)), key=lambda place: (-values[place], place))[: pen.room]
        nodes = {ROOT: ROOT}
        for place in sorted(kept):
            if pen.room < 1:
                return
            pen.write(tokens[place][-1], after=nodes[parents[place]])
            nodes[place] = pen.last


@final
@dataclass(frozen=True)
class Sequoia(Shape):
    """The shape of most accepted tokens for the budget (Sequoia, 2402.12374, section 3.1).

    acceptance: of the first child of a node, of the second where the first was rejected, and so on,
        as probabilities that a node's n-th child is the one accepted.
    """

    acceptance: tuple[float, ...]
    kind: str = "distinct"

    def grow(self, pen: Pen, probs: NextLogits) -> None:
        if pen.gamma > 0 and pen.room > 0:
            Static(best_widths(self.acceptance, pen.room, pen.gamma), self.kind).grow(pen, probs)


def parse(form: Any) -> Shape:
    """Returns the shape that a config describes, a chain where it is None.

    >>> parse("3x2").kind
    'distinct'

    Raises:
        ConfigError: it is none of FORMS.
    """
    if form is None:
        return Chain()
    if isinstance(form, Sequence) and not isinstance(form, str):
        return _listed(form, "distinct")
    kind, _, rest = str(form).rpartition(":")
    if re.fullmatch(r"\d+(x\d+)*", rest) and kind in ("", "iid", "top"):
        widths = tuple(map(int, rest.split("x")))
        require(min(widths) >= 1, "drafter.tree", form, "widths of at least 1")
        return Levels(widths, {"": "distinct", "iid": "iid", "top": "deterministic"}[kind])
    if kind in ("paths", "dynamic") and rest.isdigit() and int(rest) >= 1:
        return Dynamic(int(rest)) if kind == "dynamic" else Static({(): int(rest)}, "paths")
    if kind == "sequoia" and re.fullmatch(r"[\d.]+(,[\d.]+)*", rest):
        rates = tuple(map(float, rest.split(",")))
        fits = all(0 <= rate <= 1 for rate in rates) and 0 < sum(rates) <= 1 + 1e-9
        require(fits, "drafter.tree", form, "probabilities that add up to at most 1")
        return Sequoia(rates)
    if kind == "top" and re.fullmatch(r"[\[\]\d, ]+", rest):
        import json

        return _listed(json.loads(rest), "deterministic")
    raise ConfigError(f"drafter.tree={form!r}: expected {FORMS}")


def _listed(paths: Sequence[Sequence[int]], kind: str) -> Static:
    """Returns the shape with a node at each of some paths of ranks, as Medusa lists its choices."""
    nodes = [tuple(path) for path in paths]
    places = {(), *nodes}
    fits = len(nodes) > 0 and all(
        path and all(is_int(rank) and rank >= 0 for rank in path) for path in nodes
    )
    # A place has its parent, and all siblings that rank before it.
    fits = fits and all(
        path[:-1] in places and (not path[-1] or (*path[:-1], path[-1] - 1) in places)
        for path in nodes
    )
    require(
        fits, "drafter.tree", paths, "paths of ranks, each with its parent and earlier siblings"
    )
    widths: dict[Path, int] = {}
    for path in nodes:
        widths[path[:-1]] = max(widths.get(path[:-1], 0), path[-1] + 1)
    return Static(widths, kind)


def _children(pen: Pen, logits: Tensor, width: int, kind: str, node: int) -> Sequence[int]:
    if kind != "deterministic":
        return pen.branch(logits, width, replacement=kind != "distinct", after=node)
    first = pen.last + 1
    for token in logits.topk(min(width, len(logits))).indices.tolist():
        if pen.room:
            pen.write(token, after=node)
    return range(first, pen.last + 1)


@cache
def best_widths(acceptance: tuple[float, ...], budget: int, depth: int) -> dict[Path, int]:
    """Returns the widths of the tree of at most `budget` nodes with most accepted tokens.

    By dynamic programming: what is best below a node depends on how many nodes there are, how
    deep they may go, and which of its parent's children comes next.
    """

    @cache
    def best(nodes: int, levels: int, rank: int) -> tuple[float, int]:
        """Returns the most that children from `rank` on bring, and the size of the first's tree."""
        if nodes == 0 or levels == 0 or rank == len(acceptance):
            return 0.0, 0
        found = (0.0, 0)
        for size in range(1, nodes + 1):
            below, _ = best(size - 1, levels - 1, 0)
            beside, _ = best(nodes - size, levels, rank + 1)
            value = acceptance[rank] * (1 + below) + beside
            if value > found[0] + 1e-15:
                found = value, size
        return found

    widths: dict[Path, int] = {}

    def place(path: Path, nodes: int, levels: int) -> None:
        rank = 0
        while size := best(nodes, levels, rank)[1]:
            place((*path, rank), size - 1, levels - 1)
            nodes, rank = nodes - size, rank + 1
        if rank:
            widths[path] = rank

    place((), budget, depth)
    return widths


def expected_tokens(shape: dict[Path, int], acceptance: Sequence[float]) -> float:
    """Returns the tokens that a shape has accepted in the mean (Sequoia, equation 1)."""
    return sum(
        math.prod(acceptance[step] for step in (*place, rank))
        for place, width in shape.items()
        for rank in range(width)
    )


def one_by_one(probs: Callable[[Sequence[int]], Float[Tensor, "vocab"]]) -> NextLogits:
    """Returns the distributions of a drafter that takes one text at a time. distribution: of the tokens on a path."""
    return lambda nodes, paths: torch.stack([probs(path) for path in paths])
