"""Rules, drafters and the loop work with the target on an accelerator and drafts from the CPU."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
import torch

from outrider import Draft, Sampling, Scores, decode
from outrider.contract.chance import SampledChance
from outrider.contract.draft import ROOT
from outrider.contract.drafter import Drafter
from outrider.contract.verifier import Verifier
from outrider.decoding.batches.batch_target import batched
from outrider.plugins.parts import make
from outrider.plugins.registry import installed
from outrider.targets.tabular import TabularTarget
from outrider.testing.conditionals import Distribution
from outrider.testing.exact import Setup, output_distribution
from outrider.testing.table_drafters import ChainDrafter, TreeDrafter
from outrider.testing.tiny_targets import draft_after
from outrider.verifiers.token import Token
from tests.cuda_rules import CudaRules
from tests.devices import FAR, accelerator

VOCAB = 4
PROMPT = [0, 1, 2, 0, 1]
SAMPLED = Sampling(temperature=1.0)
GREEDY = Sampling()
RULES = list(installed().of("verifier"))


close = partial(torch.allclose, rtol=0, atol=1e-12)


def table(device: torch.device | str) -> TabularTarget:
    target = TabularTarget(VOCAB)
    target.table = target.table.to(device)
    return target


def drafters(rule: Verifier, target: TabularTarget) -> Iterator[Drafter]:
    yield from (ChainDrafter(target, chain) for chain in ("mixed", "disjoint"))
    yield from (TreeDrafter(target, kind) for kind in sorted(rule.takes - {"chain"}))


def on(device: torch.device | str, draft: Draft) -> Draft:
    probs = tuple(p if p is None else p.to(device) for p in draft.probs)
    return Draft(draft.tokens, draft.parents, probs, (), draft.calls)


@pytest.mark.device
@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize(("target_at", "drafter_at"), [(FAR, "cpu"), (FAR, FAR), ("cpu", FAR)])
def test_a_rule_decides_and_reports_as_on_the_cpu(
    name: str, target_at: torch.device | str, drafter_at: torch.device | str
) -> None:
    rule: Verifier = make("verifier", name)
    target = TabularTarget(VOCAB)
    for drafter in drafters(rule, target):
        for seed, sampling in ((0, SAMPLED), (1, SAMPLED), (2, GREEDY)):
            draft = draft_after(drafter, target, PROMPT, 2, sampling=sampling, seed=seed)
            logits = target.open(PROMPT).score(draft)
            expected = rule.verify(draft, Scores(logits, sampling), SampledChance.seeded(seed))
            with accelerator():
                scores = Scores(logits.to(target_at), sampling)
                moved = on(drafter_at, draft)
                verdict = rule.verify(moved, scores, SampledChance.seeded(seed))
            assert verdict == expected
    q = torch.tensor([0.5, 0.25, 0.25, 0.0], dtype=torch.float64)
    logits = TabularTarget(VOCAB).open(PROMPT).score(Draft())
    for sampling in (SAMPLED, GREEDY):
        rates = rule.accepts(q, Scores(logits, sampling), ROOT)
        ceiling = rule.ceiling(Scores(logits, sampling))
        with accelerator():
            scores = Scores(logits.to(target_at), sampling)
            moved = rule.accepts(q.to(drafter_at), scores, ROOT)
            assert (rates is None and moved is None) or close(moved.cpu(), rates)
            assert close(rule.ceiling(scores).cpu(), ceiling)


WARPED = Sampling(temperature=0.7, top_k=3, top_p=0.9, min_p=0.01)


@pytest.mark.parametrize("name", RULES)
def test_a_round_keeps_to_the_rules_that_pytorch_has_for_cuda(name: str) -> None:
    rule: Verifier = make("verifier", name)
    kinds = ["chain", *sorted(rule.takes - {"chain"})]
    for kind, sampling in zip(kinds, (SAMPLED, WARPED, GREEDY, SAMPLED, WARPED), strict=False):
        texts, cuda = [], CudaRules()
        with accelerator(told=cuda):
            for device in ("cpu", FAR):
                target, own = table(device), table(device)
                is_chain = kind == "chain"
                drafter = ChainDrafter(own, "mixed") if is_chain else TreeDrafter(own, kind)
                options = {"gamma": 2, "budget": 4, "sampling": sampling, "max_new_tokens": 3}
                rounds = decode(target, drafter, rule, PROMPT, **options)
                texts.append([round.tokens for round in rounds])
        assert texts[0] == texts[1]
        assert cuda.asked > cuda.read > 0


ATEN = torch.ops.aten


@pytest.mark.parametrize("fault", [ATEN.sub.Tensor, ATEN.maximum.default, ATEN.dot.default])
def test_pytorch_refuses_tensors_of_two_devices(fault: Any) -> None:
    values = torch.ones(3)
    with accelerator() as device:
        far = values.to(device)
    with pytest.raises(RuntimeError, match="on the same device"):
        CudaRules()(fault, (far, values), {}, far)


HOSTS: list[tuple[Any, str]] = [
    ("none", "token"), ("prompt_lookup", "token"), ("unigram", "block"), ("bigram", "token"),
    ({"drafter": "hybrid", "drafters": ["prompt_lookup", "bigram"]}, "token"),
    ({"drafter": "bigram", "tree": "2x1"}, "without_replacement"),
    ({"drafter": "random", "tree": "iid:2x1"}, "k_seq"),
    ({"drafter": "random", "tree": "paths:2"}, "multi_path_block"),
    ("lookahead_decoding", "candidates"),
]  # fmt: skip


@pytest.mark.device
@pytest.mark.parametrize(("drafter", "rule"), HOSTS)
@pytest.mark.parametrize("sampling", [SAMPLED, GREEDY])
def test_drafters_on_the_cpu_draft_for_an_accelerator(
    drafter: Any, rule: str, sampling: Sampling
) -> None:
    texts = []
    for device in ("cpu", FAR):
        with accelerator():
            parts = table(device), make("drafter", drafter), make("verifier", rule)
            options = {"gamma": 2, "budget": 4, "sampling": sampling, "max_new_tokens": 8}
            texts.append([round.tokens for round in decode(*parts, PROMPT, **options)])
    assert texts[0] == texts[1]


@pytest.mark.device
@pytest.mark.parametrize("policy", ["fixed", "confidence", "entropy"])
def test_drafters_on_an_accelerator_draft_for_both_devices(policy: str) -> None:
    texts = []
    for target_at, drafter_at in ((FAR, FAR), ("cpu", FAR), ("cpu", "cpu")):
        with accelerator():
            drafter = ChainDrafter(table(drafter_at), "exact")
            options = {"policy": make("policy", policy), "max_new_tokens": 12}
            loop = decode(table(target_at), drafter, Token(), PROMPT, sampling=SAMPLED, **options)
            texts.append([round.tokens for round in loop])
    assert texts[0] == texts[1] == texts[2]


@pytest.mark.device
def test_an_accelerator_writes_its_own_text_as_the_cpu_does() -> None:
    texts = []
    for device in ("cpu", FAR):
        with accelerator():
            chances = [SampledChance.seeded(3, number) for number in range(2)]
            texts.append(batched(table(device)).write([PROMPT, [1]], SAMPLED, chances, 10))
    assert texts[0] == texts[1]
    assert texts[0][0] != texts[0][1]


def test_the_accelerator_refuses_the_operations_of_a_real_one() -> None:
    with accelerator():
        far, near = torch.ones(3, device=FAR), torch.ones(3)
        for mixed in (
            lambda: far - near,
            lambda: torch.stack([far, near]),
            lambda: near[far.long()],
        ):
            with pytest.raises(RuntimeError, match="on one device"):
                mixed()
        assert (far[near.long()] + torch.tensor(1.0)).tolist() == [2, 2, 2]
        assert far.cpu().device == torch.device("cpu")
        with pytest.raises(RuntimeError):
            far.numpy()


@pytest.mark.parametrize("name", RULES)
def test_a_rule_keeps_its_distribution_without_float64(name: str) -> None:
    """The distribution is the CPU's, to the last digits of the widest type that the device has."""
    rule: Verifier = make("verifier", name)

    def distributions(at: torch.device | str) -> Iterator[Distribution]:
        target, table = (TabularTarget(3, seed=seed) for seed in (0, 7))
        for part in (target, table):
            part.table = part.table.float().to(at)
        played: list[Drafter] = [ChainDrafter(table, kind) for kind in ("exact", "mixed")]
        played += [TreeDrafter(table, kind, table=table) for kind in sorted(rule.takes - {"chain"})]
        for drafter in played:
            nodes = 2 if isinstance(drafter, ChainDrafter) else 3
            options = {"gamma": 2, "sampling": SAMPLED, "budget": nodes}
            yield output_distribution(Setup(target, drafter, rule, [0, 1], **options))

    expected = list(distributions("cpu"))
    with accelerator(with_float64=False):
        found = list(distributions(FAR))
    for on_cpu, on_device in zip(expected, found, strict=True):
        assert max(abs(p - on_device.get(text, 0.0)) for text, p in on_cpu.items()) < 1e-6
