"""FLy's deferred rejections: a token stays if the target goes along with the next ones. Lossy."""

import math
from collections.abc import Sequence
from typing import ClassVar, final

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from outrider.base.bounds import Count, Share, checked
from outrider.contract.chance import Chance
from outrider.contract.devices import wide
from outrider.contract.draft import Draft, Verdict
from outrider.contract.sampling import likeliest
from outrider.contract.verifier import Scores, Verifier, VerifierExample
from outrider.verifiers.prefix import acceptance
from outrider.verifiers.token import residual
from outrider.verifiers.typical import entropy

WINDOW = 6
"""The following tokens that have to be accepted, in the paper and in vLLM."""


@final
class Fly(Verifier):
    """Overrules isolated rejections of the token rule (FLy, 2511.22972, section 3).

    The token rule decides about every token of the draft. A token that it rejects stays if the
    target has several tokens in mind there, and the rule accepts the next `window` tokens of the
    draft. Otherwise the draft ends there as under the token rule.

    Lossy: where the entropy is high, a token comes out up to as often as the drafter proposes it,
    and what follows it is what drafter and target agree on. There is no bound in advance. At the
    first token of a draft, the total variation from p is exactly the probability that it stays
    though it was rejected, so the share of such tokens is what a run has spent.

    threshold: the least entropy of p, as a share of that of the uniform distribution. At
        temperature 0, p is taken before it becomes a point mass. 1 is lossless unless p is uniform.
    window: None for 6, or fewer in drafts of up to 6 tokens: all tokens after the first.
    """

    examples: ClassVar[tuple[VerifierExample, ...]] = (
        # The token rule accepts .2 + .3 + .2 = .7 of each token. A rejected first token, a 0, stays
        # if the second one is accepted. The others, .3 * .3, become a 1 or 2 by the residual.
        VerifierExample(
            p=(0.2, 0.4, 0.4),
            q=(0.5, 0.3, 0.2),
            gamma=2,
            accepted=0.7 * 1.7 + 0.3 * 0.7 * 2,
            text=(0.2 + 0.3 * 0.7, 0.3 + 0.09 / 3, 0.2 + 0.09 * 2 / 3),
        ),
        # The entropy is .32 of log 3: too little for the threshold.
        VerifierExample(
            p=(0.05, 0.05, 0.9),
            q=(0.5, 0.3, 0.2),
            gamma=2,
            accepted=0.3 + 0.3 * 0.3,
            settings={"threshold": 0.4},
        ),
        # At temperature 0, both tokens are wrong: the first can't be deferred.
        VerifierExample(
            p=(0.4, 0.3, 0.3), q=(0, 1, 0), gamma=2, accepted=0, text=(1, 0, 0), temperature=0
        ),
    )

    lossless = False

    @checked("verifier")
    def __init__(self, threshold: Share = 0.3, window: Count | None = None) -> None:
        self.threshold = threshold
        self.window = window

    def verify(self, draft: Draft, scores: Scores, chance: Chance) -> Verdict:
        if scores.sampling.greedy:
            best = likeliest(scores.logits).tolist()
            native = [x == best[i] for i, x in enumerate(draft.tokens)]
        else:
            rates = acceptance(draft, scores)
            native = chance.coins(rates) if draft else []
        loose = self._loose(scores)
        deferrable = [bool(loose[i, x]) for i, x in enumerate(draft.tokens)]
        window = min(WINDOW, len(draft) - 1) if self.window is None else self.window
        kept = after_deferrals(native, deferrable, max(1, window))
        if scores.sampling.greedy:
            return Verdict(tuple(range(kept)), best[kept])
        p = scores.after(kept - 1)
        if kept < len(draft):
            p = residual(p, draft.probs[kept], draft.tokens[kept])
        return Verdict(tuple(range(kept)), chance.categorical(p))

    def ceiling(self, scores: Scores) -> Float[Tensor, "nodes+1 vocab"]:
        return torch.where(self._loose(scores), 1.0, wide(scores.probs))

    def _loose(self, scores: Scores) -> Bool[Tensor, "nodes+1 vocab"]:
        """Returns for each token whether it may stay though it was rejected."""
        p = wide(scores.logits).softmax(-1) if scores.sampling.greedy else scores.probs
        share = entropy(p) / math.log(max(2, p.shape[-1]))
        return (p > 0) & (share >= self.threshold)


def after_deferrals(native: Sequence[bool], deferrable: Sequence[bool], window: int) -> int:
    """Returns how many tokens of a chain are kept: those before the first rejection that stands.

    native: whether the token rule accepts each token. deferrable: whether a rejection may be
    overruled there, if the rule accepts the next `window` tokens.
    """
    for i, accepted in enumerate(native):
        following = native[i + 1 : i + 1 + window]
        stays = deferrable[i] and len(following) == window and all(following)
        if not (accepted or stays):
            return i
    return len(native)
