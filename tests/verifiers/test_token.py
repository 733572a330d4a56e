"""The token rule: acceptance and residual worked out by hand, and the traps of rounding."""

from itertools import product

import pytest
import torch

from outrider import Chance, Draft, SampledChance, Sampling, Scores, Verdict
from outrider.testing.enumerated import EnumeratedChance
from outrider.verifiers.prefix import acceptance, leading
from outrider.verifiers.token import Token, residual

P = torch.tensor([0.1, 0.6, 0.3], dtype=torch.float64)
Q = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
SAMPLED = Sampling(temperature=1.0)


def scores(*rows: torch.Tensor) -> Scores:
    return Scores(torch.stack(rows).log(), SAMPLED)


def test_acceptance_is_p_over_q() -> None:
    draft = Draft((0, 1, 2), (-1, 0, 1), (Q, Q, None))
    expected = torch.tensor([0.2, 2.0, 0.3], dtype=torch.float64)
    torch.testing.assert_close(acceptance(draft, scores(P, P, P, P)), expected)
    assert len(acceptance(Draft(), scores(P))) == 0


def test_residual_by_hand() -> None:
    torch.testing.assert_close(residual(P, Q, 0), torch.tensor([0, 0.3, 0.1]).double())
    torch.testing.assert_close(residual(P, None, 1), torch.tensor([0.1, 0, 0.3]).double())


def test_a_residual_without_mass_is_p_itself() -> None:
    """p equals q up to rounding: a rejection has probability 1e-7, and must not fail."""
    assert torch.equal(residual(P, P, 1), P)
    certain = torch.tensor([0.0, 0.99999994, 0.0])
    assert torch.equal(residual(certain, None, 1), certain)


def test_leading_counts_up_to_the_first_failure() -> None:
    assert [leading(c) for c in ([], [True], [True, False, True], [False])] == [0, 1, 1, 0]


def test_an_empty_draft_gets_a_token_from_p() -> None:
    point = torch.tensor([0.0, 1.0, 0.0], dtype=torch.float64)
    assert Token().verify(Draft(), scores(point), SampledChance.seeded(0)) == Verdict((), 1)


@pytest.mark.parametrize("q", [None, Q])
@pytest.mark.parametrize("tokens", list(product(range(3), repeat=2)))
def test_at_temperature_0_the_rule_is_the_same_without_chance(
    tokens: tuple[int, ...], q: torch.Tensor | None
) -> None:
    """Of equally likely tokens, the first one has all the probability."""
    draft = Draft(tokens, (-1, 0), (q, q))
    logits = torch.tensor([[0.0, 2.0, 2.0], [1.0, -1.0, 0.0], [0.0, 0.0, 3.0]])
    greedy = Scores(logits, Sampling(temperature=0))

    def by_coins(chance: Chance) -> Verdict:
        count = leading(chance.coins(acceptance(draft, greedy)))
        p = greedy.after(count - 1)
        rest = p if count == len(draft) else residual(p, q, tokens[count])
        return Verdict(tuple(range(count)), chance.categorical(rest))

    expected = [(1.0, Token().verify(draft, greedy, EnumeratedChance([])))]
    assert list(EnumeratedChance.outcomes(by_coins)) == expected
