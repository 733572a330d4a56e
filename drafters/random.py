"""Random: uniform guesses, the floor under every drafter."""

from typing import Any, final

import torch

from outrider.contract.context import Context
from outrider.contract.drafter import Drafter
from outrider.contract.pen import Pen
from outrider.drafter_parts.trees import one_by_one, parse
from outrider.plugins.hookspecs import Register, hookimpl


@final
class Random(Drafter):
    """Draws each token uniformly over the vocabulary.

    tree: a shape to fill, see `outrider.drafter_parts.trees`; a chain unless told.

    At temperature 0 every distribution is a point mass, here on the first id.
    """

    autoregressive = True

    def __init__(self, tree: Any = None) -> None:
        self._shape = parse(tree)
        self.kind = self._shape.kind

    def propose(self, context: Context, pen: Pen) -> None:
        flat = torch.zeros(pen.vocab_size)
        self._shape.grow(pen, one_by_one(lambda path: flat))


@hookimpl
def register_drafters(register: Register) -> None:
    register("random", Random)
