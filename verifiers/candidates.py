"""Candidates: the rule for trees of tokens that were chosen, not drawn."""

from typing import final

from outrider.contract.chance import Chance
from outrider.contract.draft import Draft
from outrider.contract.verifier import Scores, Verdict, Verifier
from outrider.plugins.hookspecs import Register, hookimpl
from outrider.verifiers.recursive import descend


@final
class Candidates(Verifier):
    """Tests the different candidates of a node, such as the k likeliest, as point masses.

    Candidate x is accepted with probability p'(x), and p' is what the rejected ones leave of p
    (EAGLE-2's code, 2406.16858; lookahead decoding, 2402.02057, Algorithm 4). That is to draw
    from p and look whether the token is among them: lossless, and the best there is for
    candidates that do not depend on chance.
    """

    lossless = True
    takes = frozenset({"chain", "deterministic"})

    def verify(self, draft: Draft, scores: Scores, chance: Chance) -> Verdict:
        return descend(draft, scores, chance)


@hookimpl
def register_verifiers(register: Register) -> None:
    register("candidates", Candidates)
