"""Drafts on while the drafter's distribution is sharp enough to promise acceptance."""

import math
from typing import ClassVar, final

import torch

from outrider.base.bounds import NonNegative, Share, checked
from outrider.contract.devices import wide
from outrider.contract.draft import Draft
from outrider.contract.policy import PolicyExample
from outrider.contract.round import Round
from outrider.policies.nodes import NodePolicy


@final
class Entropy(NodePolicy):
    """Stops after a token whose distribution has too high an entropy.

    AdaEDL (2410.18351) bounds the acceptance from below by 1 - sqrt(scale H(q)), H in nats, and
    stops where the bound is less than 1 - limit. With a fixed limit this is also SVIP's rule
    (2411.18462: scale .15, limit .3). The token itself stays in the draft. A token that was
    written, not drawn, has no distribution and never stops a draft. A tree goes on while it has a
    branch in which every distribution is sharp enough.

    scale, limit: see above.
    target: the acceptance to steer for, as AdaEDL does: the limit grows by `step` after a round
        that leaves the running acceptance at or above the target, and shrinks after any other. None
        keeps the limit fixed. Limit and running acceptance are reset for each prompt.
    step: the change of the limit in one round.
    """

    examples: ClassVar[tuple[PolicyExample, ...]] = (
        # SVIP: sqrt(.15 H) is .22 for the first token, .30 for the second and .32 for the third.
        PolicyExample(
            probabilities=(0.9, 0.8, 0.7, 0.9),
            rounds=((3, 0),),
            gamma=8,
            settings={"scale": 0.15, "limit": 0.3, "target": None},
        ),
    )

    @checked("policy")
    def __init__(
        self,
        scale: NonNegative = 0.2,
        limit: NonNegative = 0.6,
        target: Share | None = 0.9,
        step: NonNegative = 0.01,
    ) -> None:
        super().__init__(entropy)
        self._scale = scale
        self._start = limit
        self._target = target
        self._step = step
        self.reset()

    @property
    def learns(self) -> bool:
        return self._target is not None

    def reset(self) -> None:
        self.limit: float = self._start
        self._rate: float | None = None

    def is_good(self, value: float) -> bool:
        return math.sqrt(self._scale * value) <= self.limit

    def observe(self, round: Round) -> None:
        if self._target is None or not round.tested:
            return
        rate = round.accepted / round.tested
        self._rate = rate if self._rate is None else (self._rate + rate) / 2
        self.limit = max(0.0, self.limit + math.copysign(self._step, self._rate - self._target))


def entropy(draft: Draft, node: int) -> float:
    """Returns the entropy of a node's distribution, in nats; 0 if the token was written."""
    logits = draft.logits[node]
    if logits is None:
        return 0.0
    probs = wide(logits).softmax(-1)
    return max(0.0, float(-torch.xlogy(probs, probs).sum()))
