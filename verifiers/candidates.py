"""The rule for trees of tokens that were chosen, not drawn."""

from typing import final

from outrider.contract.chance import Chance
from outrider.contract.draft import Draft
from outrider.contract.verifier import Probs, Scores, Verdict, Verifier
from outrider.verifiers.recursive import descend
from outrider.verifiers.token import token_rates


@final
class Candidates(Verifier):
    """Tests different candidates for a token, such as the k likeliest, as point masses.

    Candidate x is accepted with probability p'(x), where p' is p without the candidates rejected so
    far, normalised (EAGLE-2's code, 2406.16858; lookahead decoding, 2402.02057, Algorithm 4). This
    amounts to drawing from p and asking whether the token is a candidate. It is lossless, and
    optimal for candidates that do not depend on chance.
    """

    lossless = True
    takes: frozenset[str] = frozenset({"chain", "deterministic"})

    def verify(self, draft: Draft, scores: Scores, chance: Chance) -> Verdict:
        return descend(draft, scores, chance)

    def accepts(self, q: Probs, scores: Scores, node: int) -> Probs:
        return token_rates(q, scores, node)
