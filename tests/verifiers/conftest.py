"""The exact number of tokens that a rule accepts, to compare rules by."""

from collections.abc import Callable
from functools import partial

import pytest
from tiny.pens import new_pen

from outrider import Chance, Context, Draft, Drafter, Sampling, Scores, Tokens
from outrider.contract.verifier import Verifier
from outrider.targets.tabular import TabularTarget
from outrider.testing.enumerated import EnumeratedChance

SAMPLED = Sampling(temperature=1.0)


@pytest.fixture
def accepted_tokens() -> Callable[..., float]:
    """Returns a function for the expected number of accepted tokens of a round at temperature 1."""

    def expected(
        verifier: Verifier, drafter: Drafter, target: TabularTarget, prompt: list[int], gamma: int
    ) -> float:
        def write(chance: Chance) -> Draft:
            pen = new_pen(chance, vocab_size=target.vocab_size, gamma=gamma)
            drafter.propose(Context(Tokens(list(prompt))), pen)
            return pen.sheet.finish()

        total = 0.0
        for p_draft, draft in EnumeratedChance.outcomes(write):
            scores = Scores(target.open(prompt).score(draft), SAMPLED)
            verify = partial(verifier.verify, draft, scores)
            for p_verdict, verdict in EnumeratedChance.outcomes(verify):
                total += p_draft * p_verdict * len(verdict.accepted)
        return total

    return expected
