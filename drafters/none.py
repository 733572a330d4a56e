"""NoDraft: plain decoding through the same loop, which is the baseline of every comparison."""

from typing import final

from outrider.contract.context import Context
from outrider.contract.drafter import Drafter
from outrider.contract.pen import Pen


@final
class NoDraft(Drafter):
    """Proposes nothing: plain decoding, a token for each call of the target."""

    def propose(self, context: Context, pen: Pen) -> None:
        return
