"""A draft as one program of tensors, which an engine may record and replay with one launch."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate, islice, repeat
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad

from outrider.contract.deferred import Picked, can_defer_reads, facts_of, ids_in, pick, ranked
from outrider.contract.devices import placed, wide
from outrider.contract.draft import ROOT
from outrider.contract.pen import Pen, draw_chains
from outrider.contract.sheet import described

Program = Callable[
    ..., tuple[Float[Tensor, "*texts vocab"], Callable[..., Float[Tensor, "*texts vocab"]]]
]
"""Returns what `Pen.chain` takes, given tensors; all that differs between calls is in these.

For several texts logits and tokens have a row for each. For a tree of one text, what returns logits
is also given the row of the last logits that each token continues.
"""

Play = Callable[[Hashable, Callable[..., list[Tensor]], int, Tensor], Sequence[Tensor]]
"""Returns what a function of tensors does, given a key of the function, it, a number and a tensor.

The function is given the logits after a text, what returns those after nodes of a tree, and the
tensor on the device. What it calls is given the nodes' tokens, and for each the row of the last
logits that it continues; the number is that of all these nodes.
"""

Level = tuple[tuple[int, int, int], ...]
"""The nodes of a level that have children: which child of which one above, and how many."""


ROWS = 8
"""A recorded draft feeds a multiple of so many positions of each text."""


def positions_fed(depth: int) -> int:
    """Returns how many positions of each text a recorded draft of some depth feeds."""
    return ROWS * math.ceil((1 + depth) / ROWS)


class Programs(ABC):
    """The programs of one network, recorded for the buffers that they read and write."""

    @abstractmethod
    def play(
        self,
        key: Hashable,
        function: Callable[..., Any],
        given: Sequence[Tensor],
        buffers: Sequence[Tensor] = (),
    ) -> Any:
        """Returns what a function of tensors returns; the next call overwrites it.

        key: what the function depends on beside what is given, and its shapes.
        buffers: what it reads and writes in place.
        """

    @abstractmethod
    def lend(self, holder: object, make: Callable[..., Any], texts: int = 1) -> Any:
        """Returns buffers of a fixed size, cleared, for as long as their holder lives.

        make: makes them, given options of `GrowingTensor`; they can `clear` themselves.
        texts: how many texts they are for; those of another number are others.
        """


def at_once(logits: Float[Tensor, "depths *texts vocab"]) -> Any:
    """Returns what a `Program` does, of tokens that do not depend on each other."""
    rows = iter(logits)
    return next(rows), lambda tokens, _=None: next(rows).expand(len(tokens), -1)


def can_draw_ahead(pen: Pen) -> bool:
    """Returns whether a chain may be drawn as a whole before anything looks at its tokens."""
    sheet = pen.sheet
    has_shares = sheet.sampling.greedy or sheet.chance.ahead(1) is not None
    return has_shares and not sheet.steers_draws


def play_chains(
    pens: Mapping[int, Pen],
    programs: Programs | None,
    program: Program,
    given: Sequence[Tensor],
    buffers: Sequence[Tensor] = (),
    *,
    rows: int = 1,
) -> None:
    """Draws chains as `draw_chains` does, by one program that is read with one wait.

    A policy is asked about each token in turn. What it stops is dropped unseen, and the numbers
    that it was drawn with are left for later draws: so the text is that of drawing one by one.
    That is also done without programs, or where something has to look before.

    pens: by row of the program's logits. rows: how many there are; nobody reads the others.

    Raises `DrafterError` as `Pen.chain` does.
    """
    if programs is None or not all(map(can_draw_ahead, pens.values())):
        _draw(pens, *program(*given), rows)
        return
    sheet = next(iter(pens.values())).sheet
    sampling, depth = replace(sheet.sampling, seed=None), max(p.remaining for p in pens.values())
    shares = torch.full((depth, 0 if sampling.greedy else rows), 0.5, dtype=torch.float64)
    for row, pen in pens.items() if shares.shape[1] else ():
        own = pen.sheet.chance.ahead(pen.remaining) or ()
        shares[: len(own), row] = torch.tensor([*own], dtype=torch.float64)

    def drawn(uniforms: Tensor, *tensors: Tensor) -> list[Tensor]:
        logits, after = program(*tensors)
        chains = list[Picked]()
        for step in range(depth):
            if step:
                logits = after(torch.cat([it.token for it in chains[-rows:]]))
            chains += pick([sheet], logits.reshape(rows, -1).unbind(), uniforms[step])
        parts: Any = zip(*((it.token, it.logits, it.probs) for it in chains), strict=True)
        stacks = [torch.stack(each) for each in parts if each[0] is not None]
        return [each.view(depth, rows, -1).transpose(0, 1) for each in stacks]

    uniforms = wide(shares, given[0].device)
    outputs = programs.play((sampling, depth), drawn, [uniforms, *given], buffers)
    tokens, logits, *probs = [each.clone() for each in outputs]
    facts = facts_of(logits, tokens)
    for row, pen in pens.items():
        for node, (token,) in enumerate(ids_in(facts[row])):
            if not pen.open:
                break
            if not sampling.greedy:
                pen.sheet.chance.share()
            q = probs[0][row, node] if probs else None
            pen.submit_drawn([(token, q)], logits=logits[row, node])


def _draw(
    pens: Mapping[int, Pen], logits: Tensor, go_on: Callable[[Tensor], Tensor], count: int
) -> None:
    """Draws chains step by step. count: how many rows there are."""
    rows, by_row = list(pens), logits.reshape(count, -1)

    def after(going: Sequence[int], tokens: Sequence[Any]) -> list[Tensor]:
        drawn = {rows[index]: token for index, token in zip(going, tokens, strict=True)}
        blank = torch.zeros_like(tokens[0]) if isinstance(tokens[0], Tensor) else 0
        after_all = go_on(placed([drawn.get(row, blank) for row in range(count)], logits.device))
        return [after_all[rows[index]] for index in going]

    draw_chains([*pens.values()], [by_row[row] for row in rows], after)


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

        def play(_: Any, grown: Any, __: Any, shares: Tensor) -> Any:
            return grown(logits[: len(level)], None, wide(shares, logits.device))

        yield from play_tree(pen, play, (level,), nodes, points=False, replacement=replacement)
        return
    for row, width, node in zip(logits, widths, nodes, strict=True):
        if not pen.room:
            return
        yield pen.branch(row, min(width, pen.room), replacement=replacement, after=node)


def play_tree(
    pen: Pen,
    play: Play,
    levels: tuple[Level, ...],
    nodes: Sequence[int] = (ROOT,),
    *,
    points: bool,
    replacement: bool,
) -> Sequence[Sequence[int]]:
    """Grows a tree of a known shape by one program that is read with one wait.

    A policy is asked about the children of each node, as `Pen.branch` does, level by level; what it
    stops is as in `play_chains`. If a distribution runs out of tokens, the rest of the tree has
    other numbers than it would draw with.

    nodes: those that the first level continues. points: whether tokens are the likeliest, and
        written one by one; those that a drafter lacks are left out.

    Returns the children in the last level. Raises `DrafterError` as `Pen.branch` does.
    """
    sampling, chance = replace(pen.sheet.sampling, seed=None), pen.sheet.chance
    draws = not (points or sampling.greedy)
    counts = torch.tensor([count for level in levels for *_, count in level])
    shares = torch.full((len(counts), most := int(counts.max())), 0.5, dtype=torch.float64)
    if draws:
        own = chance.ahead(int(counts.sum())) or ()
        is_drawn = torch.arange(most) < counts[:, None]
        shares[is_drawn] = torch.tensor([*own], dtype=torch.float64)
    children = _likeliest if points else partial(ranked, sampling, replacement=replacement)
    key, fed = (sampling, levels, points, replacement), sum(map(len, levels[1:]))
    tokens, logits, *probs = play(key, partial(_grown, levels, children), fed, shares)
    facts = iter(tokens.tolist()) if points else ids_in(facts_of(logits, tokens))
    rows, q = iter(logits), iter(probs[0] if probs else repeat(None))
    above, below = [nodes], list[Sequence[int]]()
    for level in levels:
        below = []
        for row, rank, count in level:
            if not pen.room:
                return below
            _ = [chance.share() for _ in range(count * draws)]
            ids, own_logits, first = next(facts), next(rows), pen.last + 1
            of_ranks = [*zip(ids, islice(q, _width(level)), strict=False)]
            siblings = [pair for pair in of_ranks[:count] if pair[0] >= 0]
            for parent in above[row][rank : rank + 1]:  # or it is missing
                for call in [[it] for it in siblings] if points else [siblings]:
                    if pen.room:
                        pen.submit_drawn(call, parent, None if points else own_logits)
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
    logits: Float[Tensor, "nodes vocab"],
    after: Callable[[Tensor, Tensor], Tensor],
    shares: Float[Tensor, "all ranks"],
) -> list[Tensor]:
    """Returns the children's ids, the logits and, if any, all children's distributions.

    children: returns what `ranked` does. The ids have a row for each node, and for each rank a
    column; what stands for a missing one is not read.
    """
    found = list[list[Tensor]]()
    for level in levels:
        if found:
            tokens, numbers = found[-1][0], torch.arange(len(logits), device=logits.device)
            ids = torch.stack([tokens[row, rank] for row, rank, _ in level]).clamp(min=0)
            logits = after(ids, torch.stack([numbers[row] for row, *_ in level]))
        first = sum(len(part[0]) for part in found)
        ranks = children(logits, shares[first : first + len(level), : _width(level)].unbind(1))
        tokens = torch.stack([token for token, _ in ranks], dim=1)
        probs = [each for _, each in ranks if each is not None]
        whole = [torch.stack(probs, dim=1).flatten(0, 1)] if probs else []
        missing = shares.shape[1] - len(ranks)
        found.append([pad(tokens, (0, missing), value=-1), logits, *whole])
    return [torch.cat(parts) for parts in zip(*found, strict=True)]


def _width(level: Level) -> int:
    """Returns how many children the nodes of a level have at most."""
    return max(count for *_, count in level)


def _likeliest(logits: Tensor, ranks: Sequence[Any]) -> list[tuple[Tensor, None]]:
    """Returns what `ranked` does for the likeliest tokens; -1 stands for those that have none."""
    best = logits.topk(len(ranks))
    return [(ids, None) for ids in best.indices.where(best.values > -math.inf, -1).unbind(1)]
