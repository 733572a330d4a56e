"""Optimal transport: it reaches the ceiling that theory sets, and stays exact where it can't."""

from typing import Any

import pytest
import torch
from tiny.siblings import brute_force, output_and_rate, pair, siblings_of

from outrider import Chance, Draft, SampledChance, Sampling
from outrider.contract.draft import ROOT
from outrider.verifiers import optimal_transport, selection
from outrider.verifiers.ceiling import acceptance_ceiling
from outrider.verifiers.k_seq import KSeq
from outrider.verifiers.optimal_transport import OptimalTransport
from outrider.verifiers.recursive import WithoutReplacement

SAMPLED = Sampling(temperature=1.0)


@pytest.mark.parametrize(("count", "kind"), [(1, "chain"), (2, "iid"), (3, "paths"),
                                             (2, "distinct"), (3, "distinct")])  # fmt: skip
def test_the_ceiling_is_the_minimum_over_all_sets(count: int, kind: str) -> None:
    for seed in range(8):
        p, q = pair(5, seed)
        draft = siblings_of(q, count, kind, SampledChance.seeded(seed))
        exact = brute_force(p, q, count, kind)
        assert acceptance_ceiling(draft, ROOT, p, kind) == pytest.approx(exact, abs=1e-12)


def test_the_ceiling_of_chosen_siblings_is_their_mass() -> None:
    p = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
    draft = Draft((0, 2, 0), (ROOT,) * 3, (None,) * 3)
    assert acceptance_ceiling(draft, ROOT, p, "deterministic") == pytest.approx(0.7)


def test_no_ceiling_is_given_without_a_short_formula() -> None:
    p, q = pair(5, 0)
    draft = siblings_of(q, 4, "distinct", SampledChance.seeded(0))
    assert acceptance_ceiling(draft, ROOT, p, "distinct") is None
    assert acceptance_ceiling(draft, 0, p, "distinct") is None  # a leaf
    mixed = Draft((0, 1), (ROOT, ROOT), (None, q))
    assert acceptance_ceiling(mixed, ROOT, p, "iid") is None


@pytest.mark.parametrize(("count", "vocab", "kind"), [
    (2, 2, "iid"), (2, 4, "iid"), (2, 5, "iid"), (3, 3, "iid"),
    (2, 3, "distinct"), (2, 5, "distinct"), (3, 4, "distinct"), (3, 5, "distinct"),
])  # fmt: skip
def test_optimal_transport_is_exact_and_reaches_the_ceiling(
    count: int, vocab: int, kind: str
) -> None:
    sequential: Any = WithoutReplacement() if kind == "distinct" else KSeq()
    for seed in range(2):
        p, q = pair(vocab, seed)
        output, rate = output_and_rate(OptimalTransport(), p, q, count, kind)
        torch.testing.assert_close(output, p, atol=1e-12, rtol=0)
        assert rate == pytest.approx(brute_force(p, q, count, kind), abs=1e-8)
        assert rate >= output_and_rate(sequential, p, q, count, kind)[1] - 1e-9


def test_tokens_of_one_ratio_are_one_class_and_lose_nothing() -> None:
    p = torch.tensor([0.4, 0.2, 0.1, 0.2, 0.1, 0.0], dtype=torch.float64)
    q = torch.tensor([0.2, 0.1, 0.2, 0.4, 0.0, 0.1], dtype=torch.float64)
    assert len(set(selection.ratio_classes(p[q > 0], q[q > 0], 24).tolist())) == 3
    output, rate = output_and_rate(OptimalTransport(), p, q, 2)
    torch.testing.assert_close(output, p, atol=1e-12, rtol=0)
    assert rate == pytest.approx(brute_force(p, q, 2, "iid"), abs=1e-8)


@pytest.mark.parametrize("kind", ["iid", "distinct"])
@pytest.mark.parametrize("count", [2, 3])
def test_optimal_transport_with_fewer_classes_than_tokens_stays_exact(
    count: int, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(selection.CLASSES, count, 4 if kind == "distinct" else 2)
    for seed in range(2):
        p, q = pair(6 if count == 2 else 5, seed)
        output, rate = output_and_rate(OptimalTransport(), p, q, count, kind)
        torch.testing.assert_close(output, p, atol=1e-12, rtol=0)
        assert rate <= brute_force(p, q, count, kind) + 1e-12


@pytest.mark.parametrize(("count", "kind"), [(4, "iid"), (4, "distinct")])
def test_a_fourth_sibling_is_tested_after_three(count: int, kind: str) -> None:
    p, q = pair(5 if kind == "distinct" else 3, 1)
    output, rate = output_and_rate(OptimalTransport(), p, q, count, kind)
    torch.testing.assert_close(output, p, atol=1e-12, rtol=0)
    assert output_and_rate(OptimalTransport(), p, q, 3, kind)[1] < rate <= 1 + 1e-12


@pytest.mark.parametrize("count", [2, 3])
def test_siblings_of_separate_calls_are_tested_one_by_one(count: int) -> None:
    """Whether and how the second is drawn depends on the first, so no joint one is known."""
    p, q = pair(5, 0)
    other = pair(5, 3)[1]

    def siblings(q: torch.Tensor, count: int, kind: str, chance: Chance) -> Draft:
        tokens, laws = [chance.categorical(q)], [q]
        for _ in range(count - 1 if tokens[0] < 2 else 0):
            rest = other.clone()
            rest[tokens] = 0
            laws.append(rest / rest.sum())
            tokens.append(chance.categorical(laws[-1]))
        number = len(tokens)
        return Draft(tuple(tokens), (ROOT,) * number, tuple(laws), calls=tuple(range(number)))

    output, _ = output_and_rate(OptimalTransport(), p, q, count, "distinct", siblings=siblings)
    torch.testing.assert_close(output, p, atol=1e-12, rtol=0)


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("likely", [(1 - 3e-13,), (0.4, 0.6 - 3e-13)])
def test_a_nearly_certain_draft_stays_exact(count: int, likely: tuple[float, ...]) -> None:
    """What is left after its likely tokens is summed, since a difference would be rounded."""
    rest = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    q = torch.cat([torch.tensor(likely), rest / 6 * (1 - sum(likely))])
    q = q / q.sum()
    for p in (pair(len(q), 0)[0], q.flip(0)):
        output, rate = output_and_rate(OptimalTransport(), p, q, count, "distinct")
        torch.testing.assert_close(output, p, atol=1e-12, rtol=0)
        assert rate == pytest.approx(brute_force(p, q, count, "distinct"), abs=1e-8)
        draft = siblings_of(q, count, "distinct", SampledChance.seeded(0))
        assert acceptance_ceiling(draft, ROOT, p, "distinct") == pytest.approx(rate, abs=1e-8)


def likely(p: torch.Tensor, q: torch.Tensor, count: int, kind: str) -> float:
    """Returns how often a sibling is accepted, from m: an enumeration would take too long."""
    if kind == "distinct":
        m = optimal_transport._of_distinct(p, q, count)[2]
    else:
        m = optimal_transport._of_independent(p, q, count)[2]
    assert float(m.sum()) == pytest.approx(1.0, abs=1e-9)
    return float(p.minimum(m).sum())


@pytest.mark.parametrize(("count", "kind", "vocab", "gap"), [
    (2, "iid", 20_000, 0.01), (3, "iid", 20_000, 0.03),
    (2, "distinct", 20_000, 0.02), (3, "distinct", 500, 0.04),
])  # fmt: skip
def test_optimal_transport_comes_close_to_the_ceiling_of_a_large_vocabulary(
    count: int, kind: str, vocab: int, gap: float
) -> None:
    generator = torch.Generator().manual_seed(3)
    noise, logits = torch.randn(2, vocab, generator=generator, dtype=torch.float64)
    for spread in (0.5, 2.0):
        p, q = (3 * logits).softmax(0), (3 * logits + spread * noise).softmax(0)
        draft = Draft((0,) * count, (ROOT,) * count, (q,) * count)
        ceiling = acceptance_ceiling(draft, ROOT, p, kind)
        assert ceiling - gap <= likely(p, q, count, kind) <= ceiling + 1e-9


def test_the_two_likeliest_tokens_have_classes_of_their_own() -> None:
    q = torch.linspace(1.0, 3.0, 30).softmax(-1)
    classes = selection.classes_apart(q.roll(1), q, 6).tolist()
    assert sorted(set(classes)) == list(range(6))
    for likeliest in q.topk(2).indices.tolist():
        assert classes.count(classes[likeliest]) == 1
