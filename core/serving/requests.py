"""Requests: whose text each row of an engine's batch goes on with, and the drafter that it has."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import final

import numpy as np
from jaxtyping import Int32

from outrider.contract.context import Context, Tokens
from outrider.contract.drafter import Drafter

PATIENCE = 8
"""Steps that a request may be missing from the batch before its drafter is free for another."""

Row = Int32[np.ndarray, "tokens"]
"""The text of a row, as the engine keeps it."""


@final
@dataclass(slots=True)
class Request:
    """A request under way.

    drafter: its own; none before the first draft, nor after it failed.
    ids: its text as a drafter reads it, a list that only grows. seen: the same as in the row.
    """

    drafter: Drafter | None = None
    failed: bool = False
    idle: int = 0
    ids: list[int] = field(default_factory=list)
    seen: bytearray = field(default_factory=bytearray)

    @property
    def context(self) -> Context:
        """Returns the text so far, for a drafter."""
        return Context(Tokens(self.ids, len(self.ids)))

    def leads_to(self, row: Row) -> bool:
        """Returns whether a row goes on with this text: to the last id, at the price of a memcmp."""
        count = len(self.ids)
        return (
            count <= len(row)
            and bool(row[count - 1] == self.ids[-1])
            and row[:count].tobytes() == self.seen
        )

    def grow(self, row: Row) -> None:
        """Takes in what is new in its row."""
        new = row[len(self.ids) :]
        self.ids += new.tolist()
        self.seen += new.tobytes()


@final
class Requests:
    """The requests that an engine has under way, which has no name for them here.

    A drafter whose request has ended serves another: its caches are keyed by the text, so that
    nothing of the old one is left, and what it was fitted to is read once.

    make: returns a drafter that is bound to its target.
    """

    def __init__(self, make: Callable[[], Drafter]) -> None:
        self._make = make
        self._known: list[Request] = []
        self._free: list[Drafter] = [make()]

    def follow(self, rows: Iterable[Row]) -> list[Request]:
        """Returns the request of each row, brought up to its text; rows may change places."""
        before, found = self._known, list[Request]()
        for row in rows:
            # It is the first that is left, unless rows have moved.
            place = next((i for i, each in enumerate(before) if each.leads_to(row)), None)
            request = Request() if place is None else before.pop(place)
            request.grow(row)
            request.idle = 0
            found.append(request)
        self._known = found[:]
        for request in before:  # a row may pause for a step, as when its request is preempted
            request.idle += 1
            if request.idle < PATIENCE:
                self._known.append(request)
            elif request.drafter is not None:
                self._free.append(request.drafter)
        return found

    def drafter(self, request: Request) -> Drafter:
        """Returns the request's drafter, which it has from now on."""
        if request.drafter is None:
            request.drafter = self._free.pop() if self._free else self._make()
        return request.drafter

    def give_up(self, request: Request) -> None:
        """Lets the request go on without drafts; nobody else gets its drafter."""
        request.drafter, request.failed = None, True
