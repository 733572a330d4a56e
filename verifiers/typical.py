"""Typical acceptance, and sampling from the target without the tokens that it rejects. Lossy."""

from typing import Annotated, ClassVar, final

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from outrider.base.bounds import checked
from outrider.base.expectations import Within
from outrider.contract.chance import Chance
from outrider.contract.devices import wide
from outrider.contract.draft import KINDS, ROOT, Draft, Verdict
from outrider.contract.sampling import Sampling
from outrider.contract.verifier import Probs, Scores, Verifier, VerifierExample
from outrider.verifiers.token import Token

TOKEN = Token()

Threshold = Annotated[float, Within("(0, 1]")]


@final
class Typical(Verifier):
    """Accepts what is typical: p(x) > min(epsilon, delta exp(-H(p))) (Medusa, 2401.10774, 2.3.1).

    The longest accepted path is taken, and the likeliest one of equal length. The next token is
    drawn from p. Lossy: a token above the threshold comes out as often as the drafter proposes it,
    without a bound; any other token is no likelier than under p. Exact at temperature 0.

    epsilon: the hard threshold.
    delta: scales the threshold that falls with the entropy H(p), in nats. The paper's code decodes
        with these two defaults, though one of its signatures swaps them.
    """

    examples: ClassVar[tuple[VerifierExample, ...]] = (
        # The threshold is .09 here: the entropy is .92, so that .3 exp(-.92) is higher.
        VerifierExample(
            p=(0.6, 0.3, 0.06, 0.04), q=(0.25,) * 4, accepted=0.5, text=(0.55, 0.4, 0.03, 0.02)
        ),
        # And .03 here: the entropy is 2.16.
        VerifierExample(
            p=(0.4, *(0.05,) * 12),
            q=(0.04, *(0.08,) * 12),
            accepted=1.0,
            text=(0.04, *(0.08,) * 12),
        ),
        # All are typical: the likeliest of two siblings is taken.
        VerifierExample(
            p=(0.5, 0.3, 0.2), q=(1 / 3,) * 3, siblings=2, accepted=1.0, text=(5 / 9, 3 / 9, 1 / 9)
        ),
    )

    takes: frozenset[str] = frozenset(KINDS)
    lossless = False

    @checked("verifier")
    def __init__(self, epsilon: Threshold = 0.09, delta: Threshold = 0.3) -> None:
        self.epsilon = epsilon
        self.delta = delta

    def verify(self, draft: Draft, scores: Scores, chance: Chance) -> Verdict:
        typical: dict[int, Tensor] = {}  # of the rows that are reached: an entropy takes time
        best: tuple[int, float, int] = (0, 0.0, ROOT)  # depth, log-likelihood, node
        reached = {ROOT: (0, 0.0)}
        for node, (token, parent) in enumerate(zip(draft.tokens, draft.parents, strict=True)):
            if parent not in reached:
                continue
            if parent not in typical:
                typical[parent] = self._typical(scores.after(parent))
            if typical[parent][token]:
                depth, likelihood = reached[parent]
                likelihood += float(scores.after(parent)[token].log())
                reached[node] = depth + 1, likelihood
                best = max(best, (depth + 1, likelihood, node), key=lambda path: path[:2])
        return Verdict(draft.path(best[2]), chance.categorical(scores.after(best[2])))

    def accepts(self, q: Probs, scores: Scores, node: int) -> Probs:
        return self._typical(scores.after(node)).to(q.dtype)

    def ceiling(self, scores: Scores) -> Float[Tensor, "nodes+1 vocab"]:
        return torch.where(self._typical(scores.probs), 1.0, scores.probs)

    def _typical(self, p: Float[Tensor, "*rows vocab"]) -> Bool[Tensor, "*rows vocab"]:
        return above_threshold(p, self.epsilon, self.delta)


def above_threshold(
    p: Float[Tensor, "*rows vocab"], epsilon: float, delta: float
) -> Bool[Tensor, "*rows vocab"]:
    """Returns for each token whether p(x) > min(epsilon, delta exp(-H(p))), H in nats."""
    return p > (delta * (-entropy(p)).exp()).clamp(max=epsilon)


def entropy(p: Float[Tensor, "*rows vocab"]) -> Float[Tensor, "*rows 1"]:
    """Returns the entropy of each distribution, in nats."""
    return -torch.xlogy(p, p).sum(-1, keepdim=True)


@final
class Truncation(Verifier):
    """Samples from p less what `typical` would reject, renormalised.

    `typical` accepts any token above its threshold, however often the drafter proposes it. This
    rule has the same threshold, and its text is that of eta sampling (2210.15191) from the target,
    the same for every drafter. So it is what lossy rules that truncate are to be compared with
    (2607.26627). It is lossy, as truncation is. Exact at temperature 0.

    epsilon, delta: the threshold min(epsilon, delta exp(-H(p))), as in `typical`. The likeliest
        token is always kept.
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
    def __init__(self, epsilon: Threshold = 0.09, delta: Threshold = 0.3) -> None:
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
