"""SampleMatch: the naive lossless rule, which needs no draft distribution: a baseline."""

from typing import final

from jaxtyping import Float
from torch import Tensor

from outrider.contract.chance import Chance
from outrider.contract.draft import KINDS, ROOT, Draft
from outrider.contract.verifier import Scores, Verdict, Verifier
from outrider.plugins.hookspecs import Register, hookimpl


@final
class SampleMatch(Verifier):
    """Draws each token from p and goes on while the draft holds the token drawn.

    Every token is the target's own draw, so the output distribution is p for any draft, trees
    included (SpecInfer's naive sampling, 2305.09781). A token x of the draft is accepted
    with probability p(x): the best there is for a deterministic draft, less than the token
    rule for a sampled one.
    """

    lossless = True
    takes = frozenset(KINDS)

    def verify(self, draft: Draft, scores: Scores, chance: Chance) -> Verdict:
        accepted: list[int] = []
        node = ROOT
        while True:
            token = chance.categorical(scores.after(node))
            match = [child for child in draft.children(node) if draft.tokens[child] == token]
            if not match:
                return Verdict(tuple(accepted), token)
            node = match[0]
            accepted.append(node)

    def accepts(
        self, q: Float[Tensor, "vocab"], scores: Scores, node: int
    ) -> Float[Tensor, "vocab"]:
        return scores.after(node)


@hookimpl
def register_verifiers(register: Register) -> None:
    register("sample_match", SampleMatch)
