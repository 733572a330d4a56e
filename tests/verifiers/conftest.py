"""The exact number of tokens that a rule accepts, to compare rules by."""

from collections.abc import Callable

import pytest

from outrider import Chance, Context, Drafter, EnumeratedChance, Pen, Sampling, Scores, Tokens
from outrider.contract.verifier import Verifier
from outrider.targets.tabular import TabularTarget

SAMPLED = Sampling(temperature=1.0)


@pytest.fixture
def accepted_tokens() -> Callable[..., float]:
    """Returns a function for the expected number of accepted tokens of a round at temperature 1."""

    def expected(
        verifier: Verifier, drafter: Drafter, target: TabularTarget, prompt: list[int], gamma: int
    ) -> float:
        def play(chance: Chance) -> int:
            pen = Pen(sampling=SAMPLED, chance=chance, vocab_size=target.vocab_size, gamma=gamma)
            drafter.propose(Context(Tokens(list(prompt))), pen)
            draft = pen.finish()
            scores = Scores(target.open(prompt).score(draft), SAMPLED)
            return len(verifier.verify(draft, scores, chance).accepted)

        return sum(p * accepted for p, accepted in EnumeratedChance.outcomes(play))

    return expected
