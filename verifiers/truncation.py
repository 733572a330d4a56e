"""The true truncation sampler: the token rule for a target without its unlikely tokens. Lossy."""

from typing import Annotated, ClassVar, final

import torch
from jaxtyping import Float
from torch import Tensor

from outrider.base.bounds import checked
from outrider.base.expectations import Within
from outrider.contract.chance import Chance
from outrider.contract.devices import wide
from outrider.contract.draft import Draft, Verdict
from outrider.contract.sampling import Sampling
from outrider.contract.verifier import Probs, Scores, Verifier, VerifierExample
from outrider.verifiers.token import Token
from outrider.verifiers.typical import above_threshold

TOKEN = Token()


@final
class Truncation(Verifier):
    """Samples from p less what `typical` would reject, renormalised.

    `typical` accepts any token above its threshold, however often the drafter proposes it. This
    rule has the same threshold, and its text is that of eta sampling (2210.15191) from the target,
    the same for every drafter. So it is what lossy rules that truncate are to be compared with
    (2607.26627). It is lossy, as truncation is. Exact at temperature 0.

    epsilon, delta: the threshold min(epsilon, delta exp(-H(p))), as in `typical`. The likeliest
        token is always kept.

    Raises `ConfigError` if a threshold is outside (0, 1].
    """

    examples: ClassVar[tuple[VerifierExample, ...]] = (
        # The tokens of .06 and .04 are below the threshold of .09; the others keep their ratio.
        VerifierExample(
            p=(0.6, 0.3, 0.06, 0.04), q=(0.25,) * 4, accepted=0.5, text=(2 / 3, 1 / 3, 0.0, 0.0)
        ),
        # No token is above the threshold of .5: both are the likeliest.
        VerifierExample(p=(0.5, 0.5), q=(0.5, 0.5), settings={"epsilon": 1, "delta": 1}),
    )

    lossless = False

    @checked("verifier")
    def __init__(
        self,
        epsilon: Annotated[float, Within("(0, 1]")] = 0.09,
        delta: Annotated[float, Within("(0, 1]")] = 0.3,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta

    def verify(self, draft: Draft, scores: Scores, chance: Chance) -> Verdict:
        return TOKEN.verify(draft, self._truncated(scores), chance)

    def accepts(self, q: Probs, scores: Scores, node: int) -> Probs:
        return TOKEN.accepts(q, self._truncated(scores), node)

    def ceiling(self, scores: Scores) -> Float[Tensor, "nodes+1 vocab"]:
        # A round may end before its draft does, and what continues the text then has p itself.
        return self._truncated(scores).probs.maximum(scores.probs)

    def _truncated(self, scores: Scores) -> Scores:
        """Returns the scores of a target that never writes a token below the threshold."""
        p = wide(scores.probs)
        is_kept = above_threshold(p, self.epsilon, self.delta) | (p == p.amax(-1, keepdim=True))
        return Scores(torch.where(is_kept, p, 0.0).log(), Sampling(temperature=1.0))
