"""Uniform guesses, which every drafter should beat."""

from typing import Any, ClassVar, final

import torch

from outrider.contract.context import Context
from outrider.contract.drafter import Drafter, DrafterExample
from outrider.contract.pen import Pen
from outrider.drafters.parts.trees.shapes import one_by_one
from outrider.drafters.parts.trees.tree_forms import parse_tree


@final
class Random(Drafter):
    """Draws each token uniformly over the vocabulary.

    At temperature 0, when every distribution is a point mass, it drafts the first id.

    tree: the shape of its drafts, see `drafters.parts.trees.tree_forms`. Defaults to a chain.
    """

    examples: ClassVar[tuple[DrafterExample, ...]] = (
        DrafterExample(text=(1, 2), draft=(2, 0, 3), probs=(1 / 4,) * 3, gamma=3, vocab_size=4),
        DrafterExample(  # the second sibling is drawn from the three tokens that are left
            text=(1, 2),
            draft=(3, 1, 2, 2),
            parents=(-1, -1, 0, 1),
            gamma=2,
            budget=9,
            probs=(1 / 4, 1 / 3, 1 / 4, 1 / 4),
            vocab_size=4,
            settings={"tree": "2x1"},
        ),
        DrafterExample(
            text=(1, 2),
            draft=(0, 0, 0, 0),
            parents=(-1, -1, 0, 1),
            gamma=2,
            budget=9,
            settings={"tree": "paths:2"},
        ),
        DrafterExample(
            text=(1, 2),
            draft=(1, 2, 3, 0),
            parents=(-1, -1, 0, 2),
            gamma=3,
            budget=4,
            probs=(1 / 4, 1 / 3, 1 / 4, 1 / 4),
            vocab_size=4,
            settings={"tree": "sequoia:.8,.1"},
        ),
    )

    autoregressive = True

    def __init__(self, tree: Any = None) -> None:
        self._shape = parse_tree(tree)
        self.kind: str = self._shape.kind

    def propose(self, context: Context, pen: Pen) -> None:
        uniform = torch.zeros(pen.vocab_size)
        self._shape.grow(pen, one_by_one(lambda path: uniform))
