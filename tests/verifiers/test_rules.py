"""All rules together: exactness, their order, and the bounds that theory sets."""

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import pytest
import torch
from tiny.exact import assert_exact
from tiny.pens import new_pen
from tiny.siblings import ceiling

from outrider import Chance, Context, Draft, Drafter, Pen, Sampling, Tokens, Verifier
from outrider.contract.chance import SampledChance
from outrider.contract.draft import ROOT
from outrider.contract.verifier import Scores
from outrider.plugins.parts import make
from outrider.plugins.registry import installed
from outrider.targets.tabular import TabularTarget
from outrider.testing import Setup, parametrize_with_checks
from outrider.testing.enumerated import EnumeratedChance
from outrider.testing.examples import check_its_examples_of_verdicts_hold
from outrider.testing.table_drafters import ChainDrafter, TreeDrafter
from outrider.verifiers.block import Block
from outrider.verifiers.cactus import Cactus
from outrider.verifiers.cascade import Cascade
from outrider.verifiers.gumbel import Gumbel
from outrider.verifiers.k_seq import KSeq, smallest_rho
from outrider.verifiers.lenient import ScaledUniform
from outrider.verifiers.multi_path_block import MultiPathBlock
from outrider.verifiers.optimal_transport import OptimalTransport
from outrider.verifiers.recursive import Candidates, MultiStep, WithoutReplacement
from outrider.verifiers.sample_match import Rejection, SampleMatch
from outrider.verifiers.token import Token
from outrider.verifiers.traversal import Traversal
from outrider.verifiers.typical import Typical

SAMPLED = Sampling(temperature=1.0)
TREE_RULES: dict[str, list[Callable[[], Verifier]]] = {
    "iid": [MultiStep, KSeq, Traversal, SampleMatch],
    "distinct": [WithoutReplacement, Traversal, SampleMatch],
    "paths": [MultiStep, KSeq, Traversal, SampleMatch, MultiPathBlock],
    "deterministic": [Candidates, Traversal, SampleMatch],
}


@parametrize_with_checks([
    Block, Rejection, MultiStep, partial(MultiStep, order="random"), WithoutReplacement, Candidates,
    KSeq, Traversal, MultiPathBlock, SampleMatch, Typical, partial(Typical, epsilon=0.5, delta=0.9),
    Gumbel, partial(Gumbel, window=1), OptimalTransport, ScaledUniform,
    partial(ScaledUniform, b=0.4),
    partial(ScaledUniform, b=3.0, residual="plain"),
    partial(Cactus, budget=0.05, divergence="kl"),
    partial(Cascade, "token", margin=0.5, budget=0.05),
])  # fmt: skip
def test_a_rule_keeps_the_contract(make: Callable[[], Any], check: Callable[[Any], None]) -> None:
    check(make)


def models(count: int) -> list[tuple[TabularTarget, int]]:
    return [(TabularTarget(3, 2, seed, sharpness=1.5), 1000 + seed) for seed in range(count)]


def test_the_papers_example_of_ten_and_eleven_ninths(accepted_tokens: Any) -> None:
    """Sun et al., section 2: q = (2/3, 1/3) everywhere."""
    target = TabularTarget.of(torch.tensor([[1 / 3, 2 / 3]], dtype=torch.float64), order=0)
    drafter = TabularTarget.of(torch.tensor([[2 / 3, 1 / 3]], dtype=torch.float64), order=0)
    exact = ChainDrafter(drafter, "exact")  # draws from p of the target that it is made for
    counts = [accepted_tokens(rule, exact, target, [0], 2) for rule in (Token(), Block())]
    assert counts == pytest.approx([10 / 9, 11 / 9], abs=1e-12)


@pytest.mark.parametrize("kind", ["drawn", "mixed", "disjoint", "short"])
def test_block_accepts_no_less_than_token(kind: str, accepted_tokens: Any) -> None:
    more = 0
    for target, seed in models(100 if kind == "drawn" else 40):
        drafter = ChainDrafter(target, kind, seed)
        token, block = (
            accepted_tokens(rule, drafter, target, [0, 2], 2) for rule in (Token(), Block())
        )
        assert block >= token - 1e-12
        more += block > token + 1e-9
    assert more > (20 if kind in ("drawn", "disjoint") else -1)


def test_the_known_order_of_the_rules_on_chains(accepted_tokens: Any) -> None:
    for target, seed in models(40):
        drafter = ChainDrafter(target, "drawn", seed)
        counts = {
            rule: accepted_tokens(rule(), drafter, target, [0, 2], 2)
            for rule in (Token, Block, Rejection, SampleMatch, MultiStep, WithoutReplacement, KSeq,
                         Traversal, MultiPathBlock)
        }  # fmt: skip
        for rule in (MultiStep, WithoutReplacement, KSeq):
            assert counts[rule] == pytest.approx(counts[Token], abs=1e-12)
        for rule in (Traversal, MultiPathBlock):
            assert counts[rule] == pytest.approx(counts[Block], abs=1e-12)
        assert counts[Rejection] <= counts[Token] + 1e-12
        assert counts[SampleMatch] <= counts[Token] + 1e-12


def test_all_rules_accept_alike_if_the_draft_is_a_point_mass(accepted_tokens: Any) -> None:
    for target, seed in models(20):
        drafter = ChainDrafter(target, "written", seed)
        counts = [
            accepted_tokens(rule(), drafter, target, [0, 2], 3)
            for rule in (Token, Block, SampleMatch, Candidates, KSeq, Traversal, MultiPathBlock)
        ]
        assert counts == pytest.approx([counts[0]] * len(counts), abs=1e-12)


@lru_cache(maxsize=1)
def drafts(drafter: Drafter, target: TabularTarget) -> list[tuple[float, Draft, Scores]]:
    """Returns every draft of one depth with its probability, and the target's scores of it."""

    def write(chance: Chance) -> Draft:
        pen = new_pen(chance, vocab_size=3, gamma=1, budget=2)
        drafter.propose(Context(Tokens([0, 2])), pen)
        return pen.sheet.finish()

    return [
        (p, draft, Scores(target.open([0, 2]).score(draft), SAMPLED))
        for p, draft in EnumeratedChance.outcomes(write)
    ]


def node_acceptance(verifier: Verifier, drafter: Drafter, target: TabularTarget) -> float:
    """Returns the exact probability that a child of the root is accepted."""
    return sum(
        q * p
        for q, draft, scores in drafts(drafter, target)
        for p, verdict in EnumeratedChance.outcomes(partial(verifier.verify, draft, scores))
        if verdict.accepted
    )


def best_rate(target: TabularTarget, drafter: Drafter) -> float:
    """Returns how often the best rule accepts a child of the root."""
    p = target.logits([0, 2]).softmax(-1)
    return ceiling(p, ((q, draft) for q, draft, _ in drafts(drafter, target)))


@pytest.mark.parametrize("kind", TREE_RULES)
def test_no_rule_beats_optimal_transport_at_a_node(kind: str) -> None:
    for target, seed in models(40):
        drafter = TreeDrafter(target, kind, seed)
        best = best_rate(target, drafter)
        rates = [node_acceptance(rule(), drafter, target) for rule in TREE_RULES[kind]]
        assert all(rate <= best + 1e-9 for rate in rates)
        if kind == "deterministic":  # asking whether a draw of p is among them is optimal
            assert all(rate == pytest.approx(best, abs=1e-9) for rate in rates)


def test_a_second_sibling_only_adds(accepted_tokens: Any) -> None:
    for target, seed in models(40):
        single = ChainDrafter(target, "drawn", seed)
        token = accepted_tokens(Token(), single, target, [0, 2], 1)
        for kind in ("iid", "distinct"):
            tree = TreeDrafter(target, kind, seed)
            for rule in TREE_RULES[kind][:-1]:
                assert node_acceptance(rule(), tree, target) >= token - 1e-9


def test_k_seq_keeps_its_share_of_the_best() -> None:
    for target, seed in models(60):
        drafter = TreeDrafter(target, "iid", seed)
        rate = node_acceptance(KSeq(), drafter, target)
        assert rate >= (1 - 1 / 2.718281828) * best_rate(target, drafter)


def test_rho_is_the_smallest_that_fits() -> None:
    generator = torch.Generator().manual_seed(0)
    for siblings in (1, 2, 3, 5):
        for _ in range(20):
            p, q = torch.rand(2, 5, generator=generator, dtype=torch.float64).softmax(-1)
            rho = smallest_rho(p, q, siblings)
            assert 1 <= rho <= siblings
            beta = float(q.minimum(p / rho).sum())
            assert 1 - (1 - beta) ** siblings <= rho * beta + 1e-9
            if rho > 1:
                less = float(q.minimum(p / (rho - 1e-6)).sum())
                assert 1 - (1 - less) ** siblings > (rho - 1e-6) * less


def test_equal_ranks_need_a_strict_order() -> None:
    """p and q are equal, so that all ratios tie, and the distribution stays exact."""
    p = torch.tensor([[0.3, 0.3, 0.4]], dtype=torch.float64)
    target = TabularTarget.of(p, 0)

    class Even(Drafter):
        kind = "paths"

        def propose(self, context: Context, pen: Pen) -> None:
            if not pen.open:
                return
            probs = torch.tensor([0.3, 0.3, 0.4], dtype=torch.float64).log()
            for node in pen.branch(probs, 2, replacement=True):
                pen.draw(probs, after=node)

    setup = Setup(target, Even(), MultiPathBlock(), [0], gamma=2, sampling=SAMPLED, budget=4)
    assert_exact(setup, 3)


def test_typical_takes_the_longest_path_and_the_likelier_of_equals() -> None:
    target = TabularTarget.of(torch.tensor([[0.5, 0.3, 0.2]], dtype=torch.float64), 0)
    draft = Draft((1, 0, 2, 0, 1), (ROOT, ROOT, 0, 1, 1), (None,) * 5)
    scores = Scores(target.open([0]).score(draft), SAMPLED)
    verdict = Typical(epsilon=0.1).verify(draft, scores, SampledChance.seeded(0))
    assert verdict.accepted == (1, 3)  # .5 * .5 beats .3 * .2 and .5 * .3
    strict = Typical(epsilon=0.4, delta=1.0).verify(draft, scores, SampledChance.seeded(0))
    assert strict.accepted == (1, 3)
    typical = Typical(epsilon=0.6, delta=1.0).accepts(scores.after(ROOT), scores, ROOT)
    assert typical.tolist() == [1, 0, 0]


@pytest.mark.parametrize("name", installed().of("verifier"))
def test_every_rule_takes_chains_and_its_examples_hold(name: str) -> None:
    assert "chain" in make("verifier", name).takes
    check_its_examples_of_verdicts_hold(partial(make, "verifier", name))
