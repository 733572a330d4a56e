"""How long each policy drafts after rounds with known outcomes and times."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from tiny.parts import held

from outrider import Context, Draft, Drafter, Fixed, Pen, Policy, decode, theory
from outrider.policies import confidence, nodes
from outrider.policies.bandit import Bandit
from outrider.policies.confidence import Confidence, fitted
from outrider.policies.cost_model import CostModel
from outrider.policies.entropy import Entropy
from outrider.policies.goodput import Goodput, coefficients
from outrider.policies.heuristic import Heuristic
from outrider.policies.optimal import Optimal
from outrider.policies.utility import Utility, best
from outrider.targets.tabular import TabularTarget
from outrider.testing import checks_of, parametrize_with_checks
from outrider.testing.policies import check_the_second_text_of_a_seed
from outrider.verifiers.token import Token


@parametrize_with_checks([
    Fixed, CostModel, Heuristic, Confidence, Entropy, Optimal, Goodput, Utility, Bandit,
])  # fmt: skip
def test_conformance(make: Callable[[], Any], check: Callable[[Any], None]) -> None:
    check(make)


@pytest.mark.parametrize("make", [
    partial(Heuristic, transient=False), partial(Confidence, refit=True),
    partial(Entropy, scale=0.15, limit=0.3, target=None), partial(Optimal, c=0.1),
    partial(Bandit, c=0.1),
], ids=lambda make: make.func.__name__)  # fmt: skip
def test_conformance_of_further_settings(make: Callable[[], Any]) -> None:
    """The chances of a second text with a seed are the loop's, whatever the settings."""
    for check in checks_of(make):
        if check is not check_the_second_text_of_a_seed:
            check(make)


class Unsure(Drafter):
    """Draws tokens whose likeliest candidate has probability .9, .6, .2 and .9."""

    def propose(self, context: Context, pen: Pen) -> None:
        for p in (0.9, 0.6, 0.2, 0.9):
            if pen.open:
                pen.draw(torch.tensor([p] + [(1 - p) / 5] * 5).log())


@pytest.mark.parametrize(
    ("policy", "length"), [(Confidence(0.4), 3), (Confidence(0.7), 2), (Confidence(0.0), 4)]
)
def test_the_unsure_token_stays_in_the_draft(policy: Policy, length: int) -> None:
    """The decision uses the drafter's logits: at temperature 0 the distribution is a point mass."""
    target = TabularTarget(6)
    rounds = decode(target, Unsure(), Token(), [0], gamma=4, policy=policy, max_new_tokens=9)
    assert len(next(rounds).draft) == length


def seen_by(policy: Confidence) -> list[tuple[float, bool]]:
    """Returns the probabilities that a policy has seen, and whether each token was accepted."""
    return held(policy, list)


def test_a_refit_takes_each_node_of_a_tree_for_itself(outcome: Any, sure: Any) -> None:
    """Node 1 was accepted, its sibling 0 tested before; both children of 1 were rejected."""
    policy, chain = Confidence(threshold=0.0, refit=True), sure(0.1, 0.9, 0.3, 0.2, 0.15)
    parents = (-1, -1, 0, 1, 1)
    policy.depth(2)
    for count in (2, 3, 5):  # siblings are written together
        cut = slice(count)
        policy.more(Draft(chain.tokens[cut], parents[cut], chain.probs[cut], chain.logits[cut]))
    policy.observe(replace(outcome(5, 1), parents=parents, path=(1,)))
    seen = [(round(sure, 2), accepted) for sure, accepted in seen_by(policy)]
    assert seen == [(0.1, False), (0.9, True), (0.2, False), (0.15, False)]


def test_heuristic_grows_where_a_branch_was_accepted_to_its_end(outcome: Any) -> None:
    policy = Heuristic(start=2)
    policy.observe(outcome(0, 0))  # a round without a draft says nothing
    assert policy.depth(9) == 2
    policy.observe(replace(outcome(6, 2), parents=(-1, -1, 0, 0, 1, 1), path=(1, 4), tested=2))
    assert policy.depth(9) == 4


def test_the_threshold_is_fitted_to_accepted_tokens() -> None:
    apart = [(0.9, True), (0.8, True), (0.7, True), (0.3, False), (0.2, False), (0.1, False)]
    assert fitted(apart, 0.5) == 0.7
    assert fitted(apart[:5], 0.5) == 0.5  # too few
    assert fitted([(0.5, True)] * 9, 0.4) == 0.4  # of one kind only
    mixed = [*apart, (0.05, True)]
    # A threshold of .05 costs 1 + 0, one of .7 costs 0 + 3/4.
    assert fitted(mixed, 0.5) == 0.7
    assert fitted([*mixed, (0.05, True)], 0.5) == 0.05  # 1 + 0 against 0 + 3 * 2/5


def test_confidence_learns_only_from_tested_tokens(outcome: Any, sure: Any) -> None:
    policy = Confidence(threshold=0.0, refit=True)
    for _ in range(4):
        policy.depth(3)
        for length in (1, 2, 3):
            policy.more(sure(*(0.9, 0.2, 0.05)[:length]))
        policy.observe(outcome(3, 1))  # .9 accepted, .2 rejected, .05 not tested
    assert policy.threshold == pytest.approx(0.9)
    assert len(seen_by(policy)) == 8


def test_confidence_forgets_old_rounds(
    outcome: Any, sure: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(confidence, "WINDOW", 3)
    policy = Confidence(threshold=0.0, refit=True)
    for probability in (0.1, 0.2, 0.3, 0.4):
        policy.depth(1)
        policy.more(sure(probability))
        policy.observe(outcome(1, 1))
    assert [sure for sure, _ in seen_by(policy)] == pytest.approx([0.2, 0.3, 0.4])


def test_only_earlier_siblings_of_an_accepted_node_were_tested(outcome: Any) -> None:
    """Node 4 follows node 1: the nodes between them are children of node 0."""
    round = replace(outcome(5, 2), parents=(-1, -1, 0, 0, 1), path=(1, 4), tested=2)
    assert list(nodes.tested_nodes(round)) == [(0, False), (1, True), (4, True)]


@pytest.mark.parametrize("policy", [Confidence(1.0), Entropy(limit=0, target=None)])
def test_a_token_that_was_written_stops_no_draft(policy: Policy, sure: Any) -> None:
    assert policy.more(Draft((0,), (-1,), (None,), (None,)))
    assert not policy.more(sure(0.9))


def test_entropy_steers_its_limit_by_the_acceptance(outcome: Any) -> None:
    adaptive = Entropy(limit=0.5, target=0.5, step=0.1)
    adaptive.observe(outcome(4, 4))
    assert adaptive.limit == pytest.approx(0.6)
    adaptive.observe(outcome(4, 0))  # the running acceptance is .5, not below the target
    adaptive.observe(outcome(4, 0))
    assert adaptive.limit == pytest.approx(0.6)
    adaptive.reset()
    assert adaptive.limit == 0.5


@pytest.mark.parametrize("c", [0.02, 0.2, 0.5])
def test_optimal_finds_theorem_3_8(c: float, played: Any) -> None:
    """Seven of ten tested tokens are accepted; a draft token costs c times a call."""
    runs = [3, 2, 2, 0] * 200  # seven accepted and three rejected of ten, at depth 3 or more

    def accepted(depth: int) -> int:
        return min(depth, runs.pop())

    policy = Optimal(alpha=0.7, weight=1.0)
    depths = played(policy, 400, 12, accepted, draft=c)
    assert policy.c == pytest.approx(c)
    assert depths[-1] == max(1, theory.optimal_gamma(policy.alpha, c, 12))


def test_goodput_stops_drafting_that_does_not_pay_and_probes_again(played: Any) -> None:
    policy = Goodput()
    depths = played(policy, 120, 5, lambda depth: 0, draft=0.2, score=lambda rows: 1 + 0.2 * rows)
    late = depths[40:]
    assert set(late) == {0, 1}
    assert late.count(1) == 5  # every sixteenth
    helpful = Goodput()
    depths = played(
        helpful, 60, 5, lambda depth: depth, draft=0.01, score=lambda rows: 1 + 0.01 * rows
    )
    assert depths[-1] == 5


def test_goodput_fits_a_line_to_the_calls() -> None:
    assert coefficients([((1, 1), 1.0), ((1, 1), 1.1)]) is None
    line = [((1, rows), seconds) for rows, seconds in ((1, 1.2), (3, 1.6), (5, 2.0))]
    assert coefficients(line) == pytest.approx([1.0, 0.2])
    falling = coefficients([((1, 1), 2.0), ((1, 5), 1.0)])  # noise: more rows are never faster
    assert falling == pytest.approx([1.5, 0.0])
    below = coefficients([((1, 1), 0.1), ((1, 5), 1.9)])
    assert below == pytest.approx([0.0, (0.1 + 5 * 1.9) / 26])


def test_utility_keeps_to_lengths_that_pay(played: Any) -> None:
    step = lambda rows: 1 + 0.1 * rows
    never = played(Utility(trial=2, keep=20), 100, 4, lambda depth: 0, draft=0.1, score=step)
    assert never[1:10] == [0, 0, 4, 4, 2, 2, 1, 1, 0]
    assert set(never[9:29]) == {0}
    always = played(Utility(trial=2, keep=20), 29, 4, lambda depth: depth, draft=0.1, score=step)
    assert set(always[9:]) == {4}
    assert best({0: [(1, 1.0)], 4: [(3, 2.0)], 2: [(2, 1.2)]}) == 2
    assert best({0: [(1, 1.0)], 4: [(1, 2.0)]}) == 0


def test_the_bandit_finds_the_best_arm(played: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Depth 3 has the most tokens per second: four tokens in 1.6 seconds."""
    monkeypatch.setattr("outrider.policies.bandit.EXPLORE", 0.3)
    cost = {1: 1.2, 2: 1.4, 3: 1.6, 4: 2.4, 5: 3.2}
    policy = Bandit()
    depths = played(policy, 400, 5, lambda depth: min(depth, 3), score=cost.__getitem__)
    assert set(depths) == {1, 2, 3, 4, 5}
    assert depths[-200:].count(3) > 120
    counted = Bandit(c=0.25)
    depths = played(counted, 300, 5, lambda depth: min(depth, 2))
    assert max(set(depths[-150:]), key=depths.count) == 2


def test_each_arm_counts_its_own_pulls(outcome: Any) -> None:
    policy = Bandit(c=0.0)
    depths = [policy.depth(3)]
    for _ in range(30):
        policy.observe(outcome(depths[-1], 0))
        depths.append(policy.depth(3))
    assert min(depths.count(arm) for arm in (1, 2, 3)) >= 9  # equal arms share the pulls
