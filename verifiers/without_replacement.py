"""Recursive rejection for siblings that are all different."""

from typing import ClassVar, final

from outrider.contract.chance import Chance
from outrider.contract.draft import Draft
from outrider.contract.verifier import Probs, Scores, Verdict, Verifier, VerifierExample
from outrider.verifiers.recursive import descend
from outrider.verifiers.token import token_rates


@final
class WithoutReplacement(Verifier):
    """Recursive rejection without replacement (RSD, 2402.14160, Algorithm 2; EAGLE-1; Sequoia).

    Children are tested in the order in which they were drawn, each with the distribution that it
    was drawn from: q without the children before it. Lossless; the test of the first child is the
    token rule.
    """

    lossless = True
    takes: frozenset[str] = frozenset({"chain", "distinct"})
    examples: ClassVar[tuple[VerifierExample, ...]] = (
        VerifierExample(
            p=(0.5, 0.3, 0.2), q=(0.2, 0.3, 0.5), siblings=2, kind="distinct", accepted=0.82
        ),
    )

    def verify(self, draft: Draft, scores: Scores, chance: Chance) -> Verdict:
        return descend(draft, scores, chance)

    def accepts(self, q: Probs, scores: Scores, node: int) -> Probs:
        return token_rates(q, scores, node)
