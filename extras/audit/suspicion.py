"""Evidence that is suspicious is not enough: texts that come after it have to confirm it."""

import math
from collections.abc import Mapping
from typing import final


@final
class Suspicions:
    """Fortunes that have become suspicious, and how far they have grown since.

    One of `count` fortunes is suspicious once it reaches count / level, and confirmed once it is
    1 / level times what it was then. Where there is no fault, the first happens with a chance of
    at most `level`, and then the second with at most `level` again: a fortune that goes on from
    where it is, is as fair as a new one.
    """

    def __init__(self, level: float, count: int) -> None:
        self._again = -math.log(level)
        self._first = self._again + math.log(max(count, 1))
        self._since: dict[str, float] = {}
        self._confirmed: set[str] = set()

    @property
    def needed(self) -> float:
        """Returns the logarithm of the fortune that is suspicious."""
        return self._first

    @property
    def confirmed(self) -> frozenset[str]:
        """Returns the names of the fortunes that are confirmed."""
        return frozenset(self._confirmed)

    def see(self, growths: Mapping[str, float]) -> None:
        """Looks at the logarithms of all fortunes, as often as one likes."""
        for name, growth in growths.items():
            if name not in self._since:
                if growth >= self._first:
                    self._since[name] = growth
            elif growth >= self._since[name] + self._again:
                self._confirmed.add(name)
