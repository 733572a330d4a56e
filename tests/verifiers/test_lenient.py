"""Lenience: the published formulas, the bound, and the right inequality at temperature 0."""

import pytest
import torch
from tiny.siblings import output_and_rate

from outrider import ConfigError, Context, Draft, SampledChance, Sampling, Scores, Tokens
from outrider.testing.verifier_distributions import (
    check_greedy_text_is_as_claimed,
    check_loop_distribution_is_as_claimed,
    check_output_distribution_is_as_claimed,
)
from outrider.verifiers.lenient import Lenient

SAMPLED = Sampling(temperature=1.0)


@pytest.mark.parametrize("residual", ["plain", "scaled"])
@pytest.mark.parametrize("lenience", [1.0, 0.5, 0.3, 0.1])
def test_acceptance_and_bound_on_random_distributions(lenience: float, residual: str) -> None:
    """alpha_l = sum_x min(p / l, q), and no token is likelier than p / l (Appendix A.5)."""
    generator = torch.Generator().manual_seed(0)
    for _ in range(200):
        p, q = torch.rand(2, 4, generator=generator, dtype=torch.float64) ** 3
        p, q = p / p.sum(), q / q.sum()
        out, rate = output_and_rate(Lenient(lenience, residual), p, q)
        assert rate == pytest.approx(float((p / lenience).minimum(q).sum()), abs=1e-12)
        assert (out <= p / lenience + 1e-12).all()
        assert float(out.sum()) == pytest.approx(1, abs=1e-12)


def test_only_lenience_one_is_lossless() -> None:
    assert Lenient(1.0).lossless
    assert not Lenient(0.99).lossless


def greedy(lenience: float, logits: torch.Tensor, token: int) -> tuple[tuple[int, ...], int]:
    scores = Scores(torch.stack([logits, logits]), Sampling())
    rule = Lenient(lenience)
    verdict = rule.verify(Draft((token,), (-1,), (None,)), scores, SampledChance.seeded(0))
    return verdict.accepted, verdict.next_token


def test_lenience_one_writes_the_targets_token_where_several_tie() -> None:
    logits = torch.tensor([2.0, 3.0, 3.0])
    assert greedy(1.0, logits, 2) == ((), 1)
    assert greedy(1.0, logits, 1) == ((0,), 1)
    assert greedy(0.99, logits, 2) == ((0,), 1)
    assert Lenient(1.0).ceiling(Scores(logits[None], Sampling())).tolist() == [[0, 1, 0]]


def test_within_two_tokens_alone_the_rule_keeps_its_ceiling() -> None:
    """Tokens before an opening token, and after a closing one, have the target's distribution."""
    check_output_distribution_is_as_claimed(lambda: Lenient(0.3, within=[0, 2]))
    check_loop_distribution_is_as_claimed(lambda: Lenient(0.3, "scaled", within=[0, 1]))
    check_greedy_text_is_as_claimed(lambda: Lenient(0.3, within=[0, 2]))


def test_within_is_told_from_the_text_and_the_draft() -> None:
    rule, draft = Lenient(0.5, within=[7, 8]), Draft.chain([7, 1, 8, 1])
    for before, expected in (
        ([1, 2], [False, True, True, False]),
        ([7, 2], [True, True, True, False]),
        ([7, 8], [False, True, True, False]),
        ([8, 7, 1], [True, True, True, False]),
    ):
        scores = Scores(torch.zeros(5, 9), Sampling(1.0), shown=Context(Tokens(before)))
        assert rule._lenient_at(draft, scores) == expected


def test_within_the_ceiling_is_that_of_the_target_where_nothing_is_lenient() -> None:
    for before, divisor in (([1, 2], 1.0), ([7, 2], 0.5)):
        scores = Scores(torch.zeros(2, 9), Sampling(1.0), shown=Context(Tokens(before)))
        ceiling = Lenient(0.5, within=[7, 8]).ceiling(scores)
        torch.testing.assert_close(ceiling[0], scores.probs[0] / divisor)
        torch.testing.assert_close(ceiling[1], scores.probs[1] / 0.5)


def test_a_pair_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"^verifier.within=.*: expected two ids"):
        Lenient(0.5, within=[1, 1])
