"""A chain as one program of tensors, which an engine may record and replay with one launch."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from outrider.contract.deferred import Picked, facts_of, ids_in, pick
from outrider.contract.devices import placed, wide
from outrider.contract.pen import Pen, draw_chains

Program = Callable[
    ..., tuple[Float[Tensor, "vocab"], Callable[[Int[Tensor, "1"]], Float[Tensor, "vocab"]]]
]
"""Returns what `Pen.chain` takes, given tensors; all that differs between calls is in these.

For several texts logits and tokens have a row for each.
"""


ROWS = 8
"""A recorded draft feeds a multiple of so many positions of each text."""


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


def at_once(logits: Float[Tensor, "depths vocab"]) -> Any:
    """Returns what a `Program` does, of tokens that do not depend on each other."""
    rows = iter(logits)
    return next(rows), lambda _: next(rows)


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
