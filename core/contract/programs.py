"""A chain as one program of tensors, which an engine may record and replay with one launch."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from outrider.contract.deferred import pick, read_rows
from outrider.contract.devices import wide
from outrider.contract.pen import Pen

Program = Callable[
    ..., tuple[Float[Tensor, "vocab"], Callable[[Int[Tensor, "1"]], Float[Tensor, "vocab"]]]
]
"""Returns what `Pen.chain` takes, given tensors; all that differs between calls is in these."""


ROWS, MOST_ROWS = 8, 32
"""A recorded draft feeds a multiple of so many positions of the text, and at most so many."""


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
    def lend(self, holder: object, make: Callable[..., Any]) -> Any:
        """Returns buffers of a fixed size, cleared, for as long as their holder lives.

        make: makes them, given options of `GrowingTensor`; they can `clear` themselves.
        """


def at_once(logits: Float[Tensor, "depths vocab"]) -> Any:
    """Returns what a `Program` does, of tokens that do not depend on each other."""
    rows = iter(logits)
    return next(rows), lambda _: next(rows)


def rows_fed(known: int, end: int, depth: int) -> int:
    """Returns how many of a text's last positions a recorded draft feeds; 0 if it can't.

    They are as many whatever was accepted, so some are read again. The first draft of a text, which
    makes the buffers, is not recorded.

    known: how many of its `end` positions were read before. depth: that of the draft.
    """
    count = ROWS * math.ceil(max(end - known, 1 + depth) / ROWS)
    return count if known and count <= min(end, MOST_ROWS) else 0


def can_draw_ahead(pen: Pen) -> bool:
    """Returns whether a chain may be drawn as a whole before anything looks at its tokens."""
    sheet = pen.sheet
    has_shares = sheet.sampling.greedy or sheet.chance.ahead(1) is not None
    return has_shares and not sheet.steers_draws


def play_chain(
    pen: Pen,
    programs: Programs,
    program: Program,
    given: Sequence[Tensor],
    buffers: Sequence[Tensor] = (),
) -> None:
    """Draws a chain as `Pen.chain` does, by one program that is read with one wait.

    A policy is asked about each token in turn. What it stops is dropped unseen, and the numbers
    that it was drawn with are left for later draws: so the text is that of drawing one by one.

    Raises `DrafterError` as `Pen.chain` does.
    """
    sheet, depth, sampling = pen.sheet, pen.remaining, replace(pen.sheet.sampling, seed=None)
    shares = [] if sampling.greedy else [*(sheet.chance.ahead(depth) or ())]

    def drawn(uniforms: Tensor, *tensors: Tensor) -> list[Tensor]:
        logits, after = program(*tensors)
        chain = pick([sheet], [logits], uniforms[:1])
        for step in range(1, depth):
            logits = after(chain[-1].token)
            chain += pick([sheet], [logits], uniforms[step : step + 1])
        parts: Any = zip(*((it.token, it.logits, it.probs) for it in chain), strict=True)
        return [torch.stack(each) for each in parts if each[0] is not None]

    uniforms = wide(torch.tensor(shares, dtype=torch.float64), given[0].device)
    outputs = programs.play((sampling, depth), drawn, [uniforms, *given], buffers)
    tokens, rows, *probs = [each.clone() for each in outputs]
    for node, (token,) in enumerate(read_rows(rows, tokens)):
        if not pen.open:
            return
        if shares:
            sheet.chance.share()
        pen.submit_drawn([(token, probs[0][node] if probs else None)], logits=rows[node])
