"""A draft as one program of tensors, which an engine may record and replay with one launch."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from outrider.contract.deferred import Picked, facts_of, ids_in, pick
from outrider.contract.devices import placed, wide
from outrider.contract.pen import Pen, draw_chains

NodeLogits = Float[Tensor, "texts nodes vocab"]

Program = Callable[..., Any]
"""Returns the logits after each text, and what returns those after its newest nodes.

All that differs between calls is in the tensors that it is given. What it returns is given the
nodes' tokens, [texts, nodes], and in a tree also which of the last nodes each of them continues. A
program of chains may also return a list, to which it adds what it foresees of each next token,
[texts].
"""

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


def at_once(logits: Float[Tensor, "depths texts vocab"]) -> Any:
    """Returns what a `Program` does, of tokens that do not depend on each other."""
    depths = iter(logits[:, :, None])
    return next(depths), lambda tokens, _=None: next(depths).expand(-1, tokens.shape[1], -1)


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
    foreseen: Callable[[int, float], bool] | None = None,
) -> None:
    """Draws chains as `draw_chains` does, by one program that is read with one wait.

    A policy is asked about each token in turn. What it stops is dropped unseen, and the numbers
    that it was drawn with are left for later draws: so the text is that of drawing one by one.
    That is also done without programs, or where something has to look before.

    pens: by row of the program's logits. rows: how many there are; nobody reads the others.
    foreseen: whether to write a token, asked before each with its place and what is foreseen of it.

    Raises `DrafterError` as `Pen.chain` does.
    """
    if programs is None or not all(map(can_draw_ahead, pens.values())):
        _draw(pens, *program(*given)[:2], count=rows)
        return
    sheet = next(iter(pens.values())).sheet
    sampling, depth = replace(sheet.sampling, seed=None), max(p.remaining for p in pens.values())
    shares = torch.full((depth, 0 if sampling.greedy else rows), 0.5, dtype=torch.float64)
    for row, pen in pens.items() if shares.shape[1] else ():
        own = pen.sheet.chance.ahead(pen.remaining) or ()
        shares[: len(own), row] = torch.tensor([*own], dtype=torch.float64)

    def drawn(uniforms: Tensor, *tensors: Tensor) -> list[Tensor]:
        logits, after, *lists = program(*tensors)
        chains = list[Picked]()
        for step in range(depth):
            if step:
                logits = after(torch.stack([it.token for it in chains[-rows:]]))
            chains += pick([sheet], logits[:, 0].unbind(), uniforms[step])
        parts: Any = zip(*((it.token, it.logits, it.probs) for it in chains), strict=True)
        stacks = [torch.stack(each) for each in parts if each[0] is not None]
        by_row = [each.view(depth, rows, -1).transpose(0, 1) for each in stacks]
        columns = [torch.stack(each[:depth], dim=1).float()[..., None] for each in lists]
        return [torch.cat([by_row[0], *columns], dim=2), *by_row[1:]]

    uniforms = wide(shares, given[0].device)
    outputs = programs.play((sampling, depth), drawn, [uniforms, *given], buffers)
    tokens, logits, *probs = [each.clone() for each in outputs]
    facts = facts_of(logits, tokens)
    for row, pen in pens.items():
        ids = ids_in([fact[:4] for fact in facts[row]])
        for node, ((token,), fact) in enumerate(zip(ids, facts[row], strict=True)):
            if not pen.open or (foreseen and not foreseen(node, fact[-1])):
                break
            if not sampling.greedy:
                pen.sheet.chance.share()
            q = probs[0][row, node] if probs else None
            pen.submit_drawn([(token, q)], logits=logits[row, node])


def _draw(
    pens: Mapping[int, Pen],
    logits: NodeLogits,
    go_on: Callable[[Tensor], NodeLogits],
    *,
    count: int,
) -> None:
    """Draws chains step by step. count: how many rows there are."""
    rows = list(pens)

    def after(going: Sequence[int], tokens: Sequence[Any]) -> list[Tensor]:
        drawn = {rows[index]: token for index, token in zip(going, tokens, strict=True)}
        blank = torch.zeros_like(tokens[0]) if isinstance(tokens[0], Tensor) else 0
        last = placed([drawn.get(row, blank) for row in range(count)], logits.device)
        after_all = go_on(last.view(count, 1))
        return [after_all[rows[index], 0] for index in going]

    draw_chains([*pens.values()], [logits[row, 0] for row in rows], after)
