"""MyBigram: a drafter that draws from the tokens that followed the last one before."""

from itertools import pairwise

import torch

from outrider import ConfigError, Context, Drafter, DrafterExample, Pen


class MyBigram(Drafter):
    """Draws each token from those that followed the last one in the text so far.

    reach: how many tokens to look back.
    """

    # What it does, for people to read; the conformance kit plays them.
    examples = (
        DrafterExample(text=(1, 2, 3, 1), draft=(2, 3, 1, 2)),
        DrafterExample(text=(1, 2, 1, 3, 1), draft=(2, 1), probs=(0.5, 1.0), gamma=2),
        DrafterExample(text=(1, 2, 3), draft=()),
    )

    def __init__(self, reach: int = 256) -> None:
        if reach < 1:
            raise ConfigError(f"drafter.reach={reach}: expected a whole number of at least 1")
        self.reach = reach

    def propose(self, context: Context, pen: Pen) -> None:
        # A draft may depend on nothing but the context, and is written with the pen alone:
        # pen.draw(logits) draws a token, pen.write(token) takes one that you chose.
        pairs = list(pairwise(context.tokens[-self.reach - 1 :]))
        token = context.tokens[-1]
        while pen.open:  # asked before each token
            followers = [after for before, after in pairs if before == token]
            if not followers:
                return  # the token is new to the text
            counts = torch.bincount(torch.tensor(followers), minlength=pen.vocab_size)
            token = pen.draw(counts.log())
