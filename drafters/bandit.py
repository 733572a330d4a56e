"""Bandit: has one of several drafters write a draft, by what their earlier drafts have brought."""

from collections.abc import Sequence
from typing import Annotated, Self, final

import numpy as np
from numpy.typing import NDArray

from outrider.base.bounds import NonNegative, checked
from outrider.base.errors import require
from outrider.base.expectations import AtLeast
from outrider.contract.context import Context
from outrider.contract.draft import Draft, Logits, Verdict
from outrider.contract.pen import Pen
from outrider.decoding.calls import call_drafter
from outrider.decoding.clock import now
from outrider.decoding.composite import CompositeDrafter
from outrider.drafters.hybrid import COPY, Entries
from outrider.plugins.parts import make

NOBODY = -1
EXPLORE = 0.3
"""The factor of the bonus; a text has too few rounds for that of UCB1."""

KEPT, LAST, ROUNDS = 0.8, 16, 2
"""What share a text leaves of sums before it; how many texts count, and as how many rounds."""


@final
class Bandit(CompositeDrafter):
    """Has the drafter write that brings most tokens in its time, by UCB (2505.15141).

    A text begins with what earlier ones taught, and soon goes by its own rounds. Where no draft
    pays, it is left to `none`, if that is among the drafters.

    drafters: for each, its name, its settings as {drafter: NAME, SETTING: VALUE}, or a drafter.
    c: for each, a fixed cost ratio. With it the cost of a round is 1 + c * drafted and not its
        seconds, so that the choice does not depend on the clock.

    Raises `ConfigError` if `c` has another length, or two write trees of different kinds or ask the
    target for scores of their own.
    """

    @checked("drafter")
    def __init__(
        self,
        drafters: Entries = (COPY, "eagle", "none"),
        c: Annotated[Sequence[NonNegative], AtLeast(1)] | None = None,
    ) -> None:
        super().__init__([make("drafter", entry) for entry in drafters])
        kinds, count = sorted({part.kind for part in self.parts if part.trees}), len(self.parts)
        require(c is None or len(c) == count, "drafter.c", c, f"{count}, as many as drafters")
        require(len(kinds) < 2, "drafter.drafters", kinds, "one kind of trees")
        self.kind: str = kinds[0] if kinds else "chain"
        self._c, self._own = c, np.zeros((count, 3))  # for each: rounds, tokens and their cost
        self._earlier = list[NDArray[np.float64]]()  # the same of texts that have ended
        self._chosen, self._began = NOBODY, 0.0

    def open(self) -> Self:
        text = super().open()
        text._own = np.zeros_like(self._own)
        return text

    def propose(self, context: Context, pen: Pen) -> None:
        self._began, past = now(), np.zeros_like(self._own)
        for sums in self._earlier[-LAST:]:
            past = KEPT * past + sums
        shares = np.minimum(1, ROUNDS / np.maximum(past[:, :1], 1e-9))
        rounds, tokens, costs = (self._own + shares * past).T
        gains = tokens / np.maximum(costs, 1e-9)
        bonus = np.sqrt(np.log1p(self._own[:, 0].sum()) / np.maximum(rounds, 1e-9))
        bounds = np.where(rounds > 0, gains + EXPLORE * gains.max() * bonus, np.inf)
        self._chosen = int(bounds.argmax())
        call_drafter(self.parts[self._chosen], [(context, pen)])

    def observe(self, context: Context, draft: Draft, logits: Logits, verdict: Verdict) -> None:
        super().observe(context, draft, logits, verdict)
        chosen, self._chosen = self._chosen, NOBODY  # another drafter may write the next draft
        is_first = len(context.tokens) <= context.prompt_length  # the target reads the prompt
        if chosen != NOBODY and (self._c is not None or not is_first):
            cost = now() - self._began if self._c is None else 1 + self._c[chosen] * len(draft)
            self._own[chosen] += 1, len(verdict.accepted) + 1, cost

    def remember(self, context: Context) -> None:
        super().remember(context)
        self._earlier.append(self._own)

    @property
    def remembered(self) -> int:
        return max(super().remembered, len(self._earlier))

    def forget(self) -> None:
        super().forget()
        self._earlier = []
