"""Random: uniform guesses, which every drafter should beat."""

from typing import Any, final

import torch

from outrider.contract.context import Context
from outrider.contract.drafter import Drafter
from outrider.contract.pen import Pen
from outrider.drafter_parts.tree_forms import parse_tree
from outrider.drafter_parts.trees import one_by_one
from outrider.plugins.hookspecs import Register, hookimpl


@final
class Random(Drafter):
    """Draws each token uniformly over the vocabulary.

    At temperature 0, when every distribution is a point mass, it drafts the first id.

    tree: the shape of its drafts, see `outrider.drafter_parts.tree_forms`. Defaults to a chain.
    """

    autoregressive = True

    def __init__(self, tree: Any = None) -> None:
        self._shape = parse_tree(tree)
        self.kind: str = self._shape.kind

    def propose(self, context: Context, pen: Pen) -> None:
        uniform = torch.zeros(pen.vocab_size)
        self._shape.grow(pen, one_by_one(lambda path: uniform))


@hookimpl
def register_drafters(register: Register) -> None:
    register("random", Random)
