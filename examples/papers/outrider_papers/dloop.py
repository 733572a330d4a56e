"""Looped drafting, DLoop (arXiv 2610.07659), from the abstract and a summary of the paper. Exact.

A drafter that writes a block in one pass stops at its end, though the target often accepts all of
it. DLoop drafts another block after the first, before anything is verified, as long as

    sum over the block of log q(x) >= gate

The sum is of tokens that stay in the draft, so stopping by it is allowed. To drop a block with a
low sum would not be: what is left would no longer be drawn from q. The paper also trains the
drafter on states of its own; counts have none.
"""

from typing import final

from outrider import Context, Pen

from outrider_papers.small_model import SmallModel


@final
class DLoop(SmallModel):
    """Drafts block after block, as long as the last one was likely.

    places: the tokens of a block. gate: the lowest log-probability of a block that is followed by
    another. order, counts: of the small model.
    """

    def __init__(
        self, places: int = 2, gate: float = -3.0, order: int = 2, counts: str = "context"
    ) -> None:
        super().__init__(order, counts)
        self.places, self.gate = places, gate

    def propose(self, context: Context, pen: Pen) -> None:
        text, likelihood = self.read(context), 0.0
        while pen.open and likelihood >= self.gate:
            likelihood = 0.0
            for logits in self.block(text, self.places):
                if pen.open:
                    text.append(pen.draw(logits))
                    likelihood += float(logits.log_softmax(-1)[text[-1]])
