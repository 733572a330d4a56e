"""Which request each row of an engine's batch belongs to, and which drafter it has."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import final

import numpy as np
from jaxtyping import Int32

from outrider.contract.context import Context, Tokens
from outrider.contract.drafter import Drafter

PATIENCE = 8
"""Steps that a request may miss before its drafter is free for another one."""

Row = Int32[np.ndarray, "tokens"]
"""The text of a row, as the engine stores it."""


@final
@dataclass(slots=True)
class Request:
    """A request that the engine is working on.

    drafter: None before the first draft, and after the drafter has failed.
    idle: steps since the request was last in the batch.
    ids: its text, in a list that only grows, for the drafter.
    raw: the same text as the bytes of a row, for fast comparison.
    """

    drafter: Drafter | None = None
    failed: bool = False
    idle: int = 0
    ids: list[int] = field(default_factory=list)
    raw: bytearray = field(default_factory=bytearray)

    @property
    def context(self) -> Context:
        """Returns the text so far, for a drafter."""
        return Context(Tokens(self.ids, len(self.ids)))

    def leads_to(self, row: Row) -> bool:
        """Returns whether a row begins with this text. Costs no more than a memcmp."""
        count = len(self.ids)
        return (
            count <= len(row)
            and bool(row[count - 1] == self.ids[-1])
            and row[:count].tobytes() == self.raw
        )

    def grow(self, row: Row) -> None:
        """Appends the tokens of its row that are new."""
        new = row[len(self.ids) :]
        self.ids += new.tolist()
        self.raw += new.tobytes()


@final
class Requests:
    """The requests that an engine is working on, told apart by their text.

    The engine passes rows without saying whose they are. When a request ends, its drafter goes to
    another one. That is safe since a drafter's caches are keyed by the text, and it saves loading
    the drafter's weights or tables again.

    make: returns a drafter that is bound to its target.
    """

    def __init__(self, make: Callable[[], Drafter]) -> None:
        self._make = make
        self._known: list[Request] = []
        self._free: list[Drafter] = [make()]

    def follow(self, rows: Iterable[Row]) -> list[Request]:
        """Returns the request of each row, with its text updated; rows may come in any order."""
        unmatched, current = self._known, list[Request]()
        for row in rows:
            # Unless rows have moved, the first request left is the right one.
            index = next((i for i, known in enumerate(unmatched) if known.leads_to(row)), None)
            request = Request() if index is None else unmatched.pop(index)
            request.grow(row)
            request.idle = 0
            current.append(request)
        self._known = current[:]
        for request in unmatched:  # it has ended, or pauses, as when the engine preempts it
            request.idle += 1
            if request.idle < PATIENCE:
                self._known.append(request)
            elif request.drafter is not None:
                self._free.append(request.drafter)
        return current

    def drafter(self, request: Request) -> Drafter:
        """Returns the request's drafter; lends it one first if it has none."""
        if request.drafter is None:
            request.drafter = self._free.pop() if self._free else self._make()
        return request.drafter

    def give_up(self, request: Request) -> None:
        """Lets the request go on without drafts; its drafter is lent to no other."""
        request.drafter, request.failed = None, True
