"""A tree of paths of tokens, which share the nodes that they begin with."""

from collections.abc import Sequence
from typing import final

from outrider.contract.draft import ROOT
from outrider.contract.pen import Pen


@final
class MergedPaths:
    """Writes paths with a pen as one tree, in which equal beginnings are merged."""

    def __init__(self, pen: Pen) -> None:
        self._pen = pen
        self._nodes: dict[tuple[int, ...], int] = {(): ROOT}

    def add(self, path: Sequence[int]) -> None:
        """Writes what is new in a path."""
        for length in range(1, len(path) + 1):
            *above, token = beginning = tuple(path[:length])
            if beginning not in self._nodes:
                if self._pen.room < 1:
                    return
                self._pen.write(token, after=self._nodes[(*above,)])
                self._nodes[beginning] = self._pen.last
