"""Branches: who sees whom, where the places of a tree are fed to a cached model a depth at a time."""

from collections.abc import Sequence
from typing import final

import torch
from jaxtyping import Bool
from torch import Tensor


@final
class Branches:
    """Where in a cache the paths of a draft end.

    known: the tokens of the text, which everyone sees.
    """

    def __init__(self, known: int) -> None:
        self._known = known
        self._places: dict[tuple[int, ...], int] = {}

    def reach(self, start: int, paths: Sequence[Sequence[int]]) -> Bool[Tensor, "paths all"]:
        """Returns what the last token of each path sees: the text, its own path, and itself.

        start: how much is in the cache; the paths' last tokens are about to go behind it.
        """
        reach = torch.zeros(len(paths), start + len(paths), dtype=torch.bool)
        reach[:, : self._known] = True
        for row, path in enumerate(paths):
            for depth in range(1, len(path)):
                reach[row, self._places[tuple(path[:depth])]] = True
            reach[row, start + row] = True
            # Two siblings with one token have one path, and the same distribution after it.
            self._places[tuple(path)] = start + row
        return reach
