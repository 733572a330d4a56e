"""Trees that are drawn by one program of tensors, which an engine may record and replay."""

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate, repeat
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad

from outrider.contract.deferred import can_defer_reads, facts_of, ids_in, ranked
from outrider.contract.devices import wide
from outrider.contract.draft import ROOT
from outrider.contract.pen import Pen
from outrider.contract.programs import NodeLogits, Program, Programs, can_draw_ahead
from outrider.contract.sheet import described

Play = Callable[
    [Mapping[int, Pen], Hashable, Callable[..., list[Tensor]], int, Tensor], Sequence[Tensor]
]
"""Returns what a function of tensors does: `play_nodes` with a program.

It is given pens by row, a key of the function, it, the number of nodes that it returns logits
after, and a tensor with what it draws with.
"""

Level = tuple[tuple[int, int, int], ...]
"""The nodes of a level that have children: which child of which one above, and how many."""


def draw_siblings(
    pen: Pen,
    logits: Float[Tensor, "nodes vocab"],
    widths: Sequence[int],
    nodes: Sequence[int],
    *,
    replacement: bool,
) -> Iterator[Sequence[int]]:
    """Draws children of several nodes as `Pen.branch` does, as far as there is room.

    On an accelerator they are read with one wait, if no policy or constraint has to see them.

    logits, widths: of each node; the widths are at least 1.
    """
    if can_defer_reads(pen.sheet, logits) and can_draw_ahead(pen):
        described(logits[0], pen.vocab_size)
        lefts = [pen.room - used for used in accumulate(widths, initial=0)]
        counts = [min(pair) for pair in zip(widths, lefts, strict=False) if pair[1] > 0]
        level = tuple((0, node, count) for node, count in enumerate(counts))

        def play(_: Any, __: Any, grown: Any, ___: Any, shares: Tensor) -> Any:
            return grown(logits[None, : len(level)], None, wide(shares, logits.device))

        how: Any = {"points": False, "replacement": replacement}
        yield from play_trees({0: pen}, play, (level,), nodes, **how)[0]
        return
    for row, width, node in zip(logits, widths, nodes, strict=True):
        if not pen.room:
            return
        yield pen.branch(row, min(width, pen.room), replacement=replacement, after=node)


def play_trees(
    pens: Mapping[int, Pen],
    play: Play,
    levels: tuple[Level, ...],
    nodes: Sequence[int] = (ROOT,),
    *,
    rows: int = 1,
    points: bool,
    replacement: bool,
) -> list[Sequence[Sequence[int]]]:
    """Grows trees of one known shape by one program that is read with one wait.

    A policy is asked about the children of each node, as `Pen.branch` does, level by level; what it
    stops is as in `play_chains`. If a distribution runs out of tokens, the rest of its tree has
    other numbers than it would draw with.

    pens, rows: as for `play_chains`. nodes: those that the first level continues.
    points: whether tokens are the likeliest, and written one by one; those that a drafter lacks are
        left out.

    Returns the children in the last level of each tree. Raises `DrafterError` as `Pen.branch` does.
    """
    sampling = replace(next(iter(pens.values())).sheet.sampling, seed=None)
    draws = not (points or sampling.greedy)
    counts = torch.tensor([count for level in levels for *_, count in level])
    shares = torch.full((rows, len(counts), int(counts.max())), 0.5, dtype=torch.float64)
    is_drawn = torch.arange(shares.shape[2]) < counts[:, None]
    for row, pen in pens.items() if draws else ():
        own = pen.sheet.chance.ahead(int(counts.sum())) or ()
        shares[row, is_drawn] = torch.tensor([*own], dtype=torch.float64)
    children = _likeliest if points else partial(ranked, sampling, replacement=replacement)
    key, fed = (sampling, levels, points, replacement), sum(map(len, levels[1:]))
    tokens, logits, *probs = play(pens, key, partial(_grown, levels, children), fed, shares)
    facts = tokens.tolist() if points else facts_of(logits, tokens)
    widths, drawn = [_width(level) for level in levels for _ in level], list[Any]()
    for row, pen in pens.items():
        ids = facts[row] if points else ids_in(facts[row])
        q: Any = probs[0][row].split_with_sizes(widths) if probs else repeat(repeat(None))
        found = zip(ids, logits[row], q, strict=False)
        drawn.append(_written(pen, levels, nodes, found, points=points))
    return drawn


def _written(
    pen: Pen,
    levels: Sequence[Level],
    nodes: Sequence[int],
    found: Iterator[tuple[Sequence[int], Tensor, Sequence[Tensor | None]]],
    *,
    points: bool,
) -> Sequence[Sequence[int]]:
    """Writes the nodes of a tree, and returns the children in its last level.

    found: of each node the ids of children, the logits, and the distributions.
    """
    draws = not (points or pen.sheet.sampling.greedy)
    above, below = [nodes], list[Sequence[int]]()
    for level in levels:
        below = []
        for row, rank, count in level:
            if not pen.room:
                return below
            _ = [pen.sheet.chance.share() for _ in range(count * draws)]
            (ids, logits, q), first = next(found), pen.last + 1
            siblings = [pair for pair in zip(ids[:count], q, strict=False) if pair[0] >= 0]
            for parent in above[row][rank : rank + 1]:  # or it is missing
                for call in [[it] for it in siblings] if points else [siblings]:
                    if pen.room:
                        pen.submit_drawn(call, parent, None if points else logits)
            below.append(range(first, pen.last + 1))
        above = below
    return below


def play_nodes(
    programs: Programs | None,
    program: Program,
    given: Sequence[Tensor],
    buffers: Sequence[Tensor] = (),
    *,
    key: Hashable,
    grown: Callable[..., list[Tensor]],
    shares: Tensor,
) -> list[Tensor]:
    """Does what a `Play` does, on the logits of a program; the arguments are its and theirs."""
    run: Any = lambda own, *tensors: grown(*program(*tensors), own)
    given = [wide(shares, given[0].device), *given]
    outputs = programs.play(key, run, given, buffers) if programs else run(*given)
    return [each.clone() for each in outputs]


def _grown(
    levels: Sequence[Level],
    children: Callable[[Tensor, Sequence[Tensor]], Sequence[tuple[Tensor, Tensor | None]]],
    logits: NodeLogits,
    after: Callable[[Tensor, Tensor], NodeLogits],
    shares: Float[Tensor, "texts all ranks"],
) -> list[Tensor]:
    """Returns the children's ids, the logits and, if any, all children's distributions.

    children: returns what `ranked` does. For each text the ids have a row for each node, and for
    each rank a column; what stands for a missing one is not read.
    """
    found, texts = list[list[Tensor]](), len(logits)
    for level in levels:
        if found:
            numbers = torch.arange(logits.shape[1], device=logits.device)
            rows = torch.stack([numbers[row] for row, *_ in level]).expand(texts, -1)
            ids = torch.stack([found[-1][0][:, row, rank] for row, rank, _ in level], dim=1)
            logits = after(ids.clamp(min=0), rows)
        first = sum(part[0].shape[1] for part in found)
        own = shares[:, first : first + len(level), : _width(level)].flatten(0, 1)
        ranks = children(logits.flatten(0, 1), own.unbind(1))
        tokens = torch.stack([token for token, _ in ranks], dim=1).view(texts, len(level), -1)
        probs = [each for _, each in ranks if each is not None]
        whole = [torch.stack(probs, dim=1).view(texts, -1, logits.shape[2])] if probs else []
        missing = shares.shape[2] - len(ranks)
        found.append([pad(tokens, (0, missing), value=-1), logits, *whole])
    return [torch.cat(parts, dim=1) for parts in zip(*found, strict=True)]


def _width(level: Level) -> int:
    """Returns how many children the nodes of a level have at most."""
    return max(count for *_, count in level)


def _likeliest(logits: Tensor, ranks: Sequence[Any]) -> list[tuple[Tensor, None]]:
    """Returns what `ranked` does for the likeliest tokens; -1 stands for those that have none."""
    best = logits.topk(len(ranks))
    return [(ids, None) for ids in best.indices.where(best.values > -math.inf, -1).unbind(1)]
