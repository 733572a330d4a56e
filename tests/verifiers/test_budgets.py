"""Lossy rules keep to their budget and use it well; the kit catches one that does not."""

import itertools

import pytest
import torch
from tiny.siblings import output_and_rate, pair

from outrider import Budget, Sampling
from outrider.verifiers.cactus import Cactus, nearest_in_kl
from outrider.verifiers.cascade import DEFERRALS, Cascade, cascade
from outrider.verifiers.token import Token

SAMPLED = Sampling(temperature=1.0)


@pytest.mark.parametrize("divergence", ["tv", "kl"])
@pytest.mark.parametrize("limit", [0.01, 0.1, 0.5, 5.0])
def test_cactus_uses_its_budget_up_or_accepts_everything(limit: float, divergence: str) -> None:
    rule = Cactus(limit, divergence)
    for seed in range(5):
        p, q = pair(5, seed)
        output, rate = output_and_rate(rule, p, q)
        spent = Budget(limit, divergence).spent(output, p)
        assert spent <= limit + 1e-12
        assert spent == pytest.approx(limit, abs=1e-9) or rate == pytest.approx(1, abs=1e-9)
        if divergence == "tv":
            assert rate == pytest.approx(min(1.0, float(p.minimum(q).sum()) + limit), abs=1e-12)


@pytest.mark.parametrize("divergence", ["tv", "kl"])
def test_no_distribution_within_the_budget_overlaps_more_with_q(divergence: str) -> None:
    """A fine grid over all distributions of three tokens."""
    steps = 120
    grid = torch.tensor(
        [(i, j, steps - i - j) for i in range(steps + 1) for j in range(steps + 1 - i)],
        dtype=torch.float64,
    ).div(steps)
    for seed in range(2):
        p, q = pair(3, seed)
        budget = Budget(0.05, divergence)
        _, rate = output_and_rate(Cactus(0.05, divergence), p, q)
        within = torch.tensor([budget.spent(h, p) <= budget.limit for h in grid])
        best = float(grid[within].minimum(q).sum(-1).max())
        assert best <= rate + 1e-9
        assert best >= rate - 3 / steps


def test_a_token_the_target_never_writes_costs_infinitely_much_in_kl() -> None:
    p = torch.tensor([0.6, 0.4, 0.0], dtype=torch.float64)
    q = torch.tensor([0.1, 0.2, 0.7], dtype=torch.float64)
    output, _ = output_and_rate(Cactus(10.0, "kl"), p, q)
    assert output[2] == 0
    output, _ = output_and_rate(Cascade("chow", 1.0, 10.0, "kl"), p, q)
    torch.testing.assert_close(output, p)


def test_a_budget_for_the_drafted_token_alone_does_not_bound_the_text() -> None:
    """Each token of h is raised as far as KL .1 allows, for itself: together they make up q."""
    p = torch.full((101,), 1e-4, dtype=torch.float64)
    p[0] = 1 - p[1:].sum()
    q = torch.full((101,), 0.01, dtype=torch.float64)
    q[0] = 0
    raised = q[1]  # within the budget of each token alone, so that each is accepted for certain
    alone = raised * (raised / p[1]).log() + (1 - raised) * ((1 - raised) / (1 - p[1])).log()
    assert alone < 0.1
    assert Budget(0.1, "kl").spent(q, p) > 4
    h = nearest_in_kl(p, q, 0.1)
    assert Budget(0.1, "kl").spent(h, p) == pytest.approx(0.1, abs=1e-9)


def test_a_cascade_within_its_budget_is_the_papers_own() -> None:
    for seed, deferral in itertools.product(range(2), DEFERRALS):
        p, q = pair(4, seed)
        output, _ = output_and_rate(Cascade(deferral, 0.4, budget=1.0), p, q)
        torch.testing.assert_close(output, cascade(p, q, deferral, 0.4), atol=1e-12, rtol=0)
        output, _ = output_and_rate(Cascade(deferral, 0.4, budget=0.03), p, q)
        assert Budget(0.03).spent(output, p) <= 0.03 + 1e-12


def test_without_a_budget_both_are_the_token_rule_and_lossless() -> None:
    for seed in range(5):
        p, q = pair(4, seed)
        for rule in (Cactus(0), Cactus(0, "kl"), Cascade(budget=0)):
            assert rule.lossless
            assert output_and_rate(rule, p, q)[1] == pytest.approx(
                output_and_rate(Token(), p, q)[1]
            )
    assert not Cactus().lossless
    assert not Cascade().lossless
