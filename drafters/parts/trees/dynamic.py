"""Trees of the likeliest nodes, which are found level by level: EAGLE-2's and EAGLE-4's."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from outrider.contract.devices import wide
from outrider.contract.draft import ROOT
from outrider.contract.pen import Pen
from outrider.contract.tree_programs import Play
from outrider.drafters.parts.trees.shapes import NextLogits, Path, Shape, Static

DECAY = 0.9999
"""What a node's value is multiplied by for each level: of equal ones, the shallower wins."""


@final
class Candidates:
    """The children of the likeliest nodes of each level (EAGLE-2, 2406.16858, section 4).

    A node's value is the probability of its path, times `decay` for each level.

    width: how many nodes of a level are expanded, and the most children of each.
    """

    def __init__(self, width: int, decay: float = 1.0) -> None:
        self._width, self._log_decay = width, math.log(decay)
        # Parents before children: the path of tokens, the parent, the logarithm of the value.
        self._tokens: list[list[int]] = []
        self._parents, self._values = list[int](), list[float]()
        self._layer = [ROOT]
        # By rank, the share of their parent's value that children had, weighted with that value.
        self._shares, self._weight = [0.0] * width, 0.0

    @property
    def paths(self) -> list[list[int]]:
        """Returns the tokens up to each node that is to be expanded."""
        return [self._tokens[node] if node != ROOT else [] for node in self._layer]

    @property
    def room(self) -> float:
        """Returns the most that the values of another level can add up to."""
        return math.exp(self._log_decay) * sum(map(self.value, self._layer))

    @property
    def foreseen(self) -> list[float]:
        """Returns the values of another level, if its shares are those of the levels so far."""
        return [
            self.value(node) * share / self._weight
            for node in self._layer
            for share in self._shares
        ]

    def expand(self, logits: Float[Tensor, "paths vocab"]) -> None:
        """Adds a level. logits: those after each of `paths`."""
        logs = logits.float().log_softmax(-1)
        best = logs.topk(min(self._width, logs.shape[-1]))
        children = []
        for node, path, scores, ids in zip(
            self._layer, self.paths, best.values.tolist(), best.indices.tolist(), strict=True
        ):
            above = self._values[node] if node != ROOT else 0.0
            self._weight += math.exp(above)
            for rank, (score, token) in enumerate(zip(scores, ids, strict=True)):
                if score > -math.inf:
                    children.append(len(self._tokens))
                    self._tokens.append([*path, token])
                    self._parents.append(node)
                    self._values.append(above + score + self._log_decay)
                    self._shares[rank] += math.exp(self._values[-1])
        self._layer = self._ranked(children)[: self._width]

    def likeliest(self, count: int) -> list[int]:
        """Returns the nodes with the greatest values: a tree, however many they are.

        No node is likelier than its parent, and ties go to the earlier node.
        """
        return self._ranked(range(len(self._tokens)))[:count]

    def value(self, node: int) -> float:
        """Returns a node's value; 1 for the root."""
        return math.exp(self._values[node]) if node != ROOT else 1.0

    def widths(self, nodes: Iterable[int]) -> dict[Path, int]:
        """Returns the shape of nodes that are a tree, given in the order of `likeliest`."""
        ranks, widths = dict[int, Path]({ROOT: ()}), dict[Path, int]()
        for node in nodes:
            above = ranks[self._parents[node]]
            ranks[node] = (*above, widths.get(above, 0))
            widths[above] = 1 + widths.get(above, 0)
        return widths

    def write(self, pen: Pen, nodes: Iterable[int]) -> None:
        """Writes nodes that are a tree, as far as there is room."""
        tokens, parents = self._tokens, self._parents
        write_nodes(pen, ((node, parents[node], tokens[node][-1]) for node in sorted(nodes)))

    def _ranked(self, nodes: Iterable[int]) -> list[int]:
        return sorted(nodes, key=lambda node: (-self._values[node], node))


def write_nodes(pen: Pen, nodes: Iterable[tuple[int, int, int]]) -> None:
    """Writes a tree as far as there is room. nodes: number, parent and token, parents first."""
    written = {ROOT: ROOT}
    for node, parent, token in nodes:
        if pen.room < 1:
            return
        pen.write(token, after=written[parent])
        written[node] = pen.last


@final
@dataclass(frozen=True)
class Dynamic(Shape):
    """EAGLE-2's tree (2406.16858, section 4).

    At each depth, the `width` nodes with the likeliest paths are expanded. In the end, the nodes
    with the likeliest paths are kept, as many as the budget allows.
    """

    width: int
    kind: str = "deterministic"
    plays = True

    def grow(self, pen: Pen, next_logits: NextLogits) -> None:
        if pen.gamma < 1 or pen.room < 1:
            return
        tree = Candidates(self.width)
        for _ in range(pen.gamma):
            tree.expand(next_logits(tree.paths))
        tree.write(pen, tree.likeliest(pen.room))

    def _play_alike(self, pens: Mapping[int, Pen], play: Play, rows: int) -> None:
        first = next(iter(pens.values()))
        depth, room = first.gamma, first.room

        def grown(logits: Tensor, after: Callable[..., Tensor], _: Tensor) -> list[Tensor]:
            above = wide(logits.new_zeros(rows, 1))
            layer = torch.full((rows, 1), ROOT, device=logits.device)
            levels, count = list[Tensor](), 0
            for level in range(depth):
                logs = logits.float().log_softmax(-1)
                best = logs.topk(min(self.width, logs.shape[-1]))
                ids, size = best.indices.flatten(1), best.indices.shape[-1]
                values = (above[..., None] + wide(best.values)).flatten(1)
                parents = layer[..., None].expand(-1, -1, size).flatten(1)
                levels.append(torch.stack([wide(parents), wide(ids), values], dim=-1))
                kept = values.sort(descending=True, stable=True).indices[:, : self.width]
                layer, above, count = count + kept, values.gather(1, kept), count + ids.shape[1]
                if level + 1 < depth:
                    logits = after(ids.gather(1, kept), kept // size)
            nodes = torch.cat(levels, dim=1)
            ranks = nodes[..., 2].sort(descending=True, stable=True).indices[..., None]
            return [torch.cat([wide(ranks), nodes.take_along_dim(ranks, 1)], dim=-1)]

        fed = (depth - 1) * self.width
        (found,) = play(pens, (self, depth), grown, fed, torch.empty(rows, 0))
        nodes = found[:, :room].tolist()
        for row, pen in pens.items():
            kept = sorted(node[:3] for node in nodes[row] if node[3] > -math.inf)
            write_nodes(pen, ((int(node), int(above), int(token)) for node, above, token in kept))


@final
@dataclass(frozen=True)
class Replayed(Shape):
    """The shape of EAGLE-2's tree, with tokens that are drawn (tree replay, Tsubame 2609.33652).

    The shape is planned by the distributions that tokens are drawn from. Then its tokens are
    forgotten, and siblings are drawn into it without replacement. A draw is accepted more often
    than a point. At temperature 0 it is EAGLE-2's tree itself.

    From the abstract. A drafter that is not done in one pass has more passes for the paths that
    were drawn and not planned.
    """

    width: int
    kind: str = "distinct"

    def grow(self, pen: Pen, next_logits: NextLogits) -> None:
        sampling, known = pen.sheet.sampling, dict[Path, Tensor]()
        if sampling.greedy:
            Dynamic(self.width).grow(pen, next_logits)
            return

        def logits_after(paths: Sequence[Sequence[int]]) -> Tensor:
            if new := [path for path in map(tuple, paths) if path not in known]:
                known.update(zip(new, next_logits(new).clone(), strict=True))
            return torch.stack([known[tuple(path)] for path in paths])

        tree = Candidates(self.width)
        for _ in range(pen.gamma if pen.room else 0):
            tree.expand(sampling.probs(logits_after(tree.paths)).log())
        Static(tree.widths(tree.likeliest(pen.room)), self.kind).grow(pen, logits_after)

    def play(self, pens: Mapping[int, Pen], play: Play, rows: int = 1) -> bool:
        greedy = next(iter(pens.values())).sheet.sampling.greedy
        return greedy and Dynamic(self.width).play(pens, play, rows)


@final
@dataclass(frozen=True)
class CostTree(Shape):
    """The tree with the highest expected tokens over cost, of the levels that it drafted.

    Costs are in units of a target call for one token. A node is worth the drafter's probability of
    its path, and a round costs 1 + pass_cost for each level that was drafted + node_cost for each
    node that is scored. At each depth the `width` likeliest nodes are expanded, as in EAGLE-2.
    Another level is drafted while the rate would rise if its children had the shares of their
    parents' values that those of the levels so far had. A level that turns out not to pay has been
    paid for, and one that would have paid may be missed: on random tables the rate is .3% below
    that of the best depth on average, and 21% at worst. In the end the likeliest nodes are kept, as
    many as give the highest rate; that may be none.

    Made from EAGLE-4's idea of a tree by measured costs. Its code was not read.

    width: the most nodes that are expanded at a depth, and the most children of each.
    pass_cost, node_cost: the cost of a pass of the drafter, and of a token that is scored beside
        the first, as shares of a target call for one token.
    """

    width: int
    pass_cost: float
    node_cost: float
    kind: str = "deterministic"

    def grow(self, pen: Pen, next_logits: NextLogits) -> None:
        tree = Candidates(self.width, DECAY)
        chosen: list[int] = []
        rate, levels = 1.0, 0
        while levels < pen.gamma and tree.room > rate * (self.pass_cost + self.node_cost):
            values = map(tree.value, tree.likeliest(pen.room))
            if levels and max(self._rates([*values, *tree.foreseen], levels + 1, pen.room)) <= rate:
                break
            tree.expand(next_logits(tree.paths))
            levels += 1
            ranked = tree.likeliest(pen.room)
            rates = self._rates(map(tree.value, ranked), levels, pen.room)
            rate = max(rates)
            chosen = ranked[: rates.index(rate)]
        tree.write(pen, chosen)

    def _rates(self, values: Iterable[float], levels: int, most: int) -> list[float]:
        """Returns the rate with each number of nodes, the ones of the highest values."""
        tokens = accumulate(sorted(values, reverse=True)[:most], initial=1.0)
        drafting = 1 + self.pass_cost * levels
        return [total / (drafting + self.node_cost * n) for n, total in enumerate(tokens)]
