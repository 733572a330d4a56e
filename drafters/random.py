"""Random: uniform guesses, the floor under every drafter."""

from typing import final

import torch

from outrider.context import Context
from outrider.draft import Pen
from outrider.drafter import Drafter
from outrider.hookspecs import Register, hookimpl


@final
class Random(Drafter):
    """Draws each token uniformly over the vocabulary.

    At temperature 0 every law is a point mass, here on the first id.
    """

    autoregressive = True

    def propose(self, context: Context, pen: Pen) -> None:
        flat = torch.zeros(pen.vocab_size)
        while pen.open:
            pen.draw(flat)


@hookimpl
def register_drafters(register: Register) -> None:
    register("random", Random)
