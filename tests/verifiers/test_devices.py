"""Rules, drafters and the loop work with the target on an accelerator and drafts from the CPU."""

from collections.abc import Iterator

import pytest
import torch

from outrider import Context, Draft, Sampling, Scores, Target, Tokens, decode
from outrider.contract.chance import SampledChance
from outrider.contract.draft import ROOT
from outrider.contract.drafter import Drafter
from outrider.contract.verifier import Verifier
from outrider.plugins.registry import installed, make
from outrider.targets.tabular import TabularTarget
from outrider.testing.stage import ChainDrafter, TreeDrafter, play_draft
from tests.devices import FAR, accelerator

VOCAB = 4
PROMPT = [0, 1, 2, 0, 1]
SAMPLED = Sampling(temperature=1.0)
GREEDY = Sampling()
RULES = list(installed().of("verifier"))


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


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize(("target_at", "drafter_at"), [(FAR, "cpu"), (FAR, FAR), ("cpu", FAR)])
def test_a_rule_decides_as_on_the_cpu(
    name: str, target_at: torch.device | str, drafter_at: torch.device | str
) -> None:
    rule: Verifier = make("verifier", name)
    target = TabularTarget(VOCAB)
    for drafter in drafters(rule, target):
        for seed, sampling in ((0, SAMPLED), (1, SAMPLED), (2, GREEDY)):
            context = Context(Tokens(PROMPT))
            draft = play_draft(
                drafter, target, context, gamma=2, sampling=sampling, seed=seed
            )
            logits = target.open(PROMPT).score(draft)
            expected = rule.verify(draft, Scores(logits, sampling), SampledChance.seeded(seed))
            with accelerator():
                scores = Scores(logits.to(target_at), sampling)
                moved = on(drafter_at, draft)
                verdict = rule.verify(moved, scores, SampledChance.seeded(seed))
            assert verdict == expected


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize(("target_at", "drafter_at"), [(FAR, "cpu"), (FAR, FAR), ("cpu", FAR)])
def test_a_rule_reports_as_on_the_cpu(
    name: str, target_at: torch.device | str, drafter_at: torch.device | str
) -> None:
    rule: Verifier = make("verifier", name)
    q = torch.tensor([0.5, 0.25, 0.25, 0.0], dtype=torch.float64)
    logits = TabularTarget(VOCAB).open(PROMPT).score(Draft())
    for sampling in (SAMPLED, GREEDY):
        rates = rule.accepts(q, Scores(logits, sampling), ROOT)
        ceiling = rule.ceiling(Scores(logits, sampling))
        with accelerator():
            scores = Scores(logits.to(target_at), sampling)
            moved = rule.accepts(q.to(drafter_at), scores, ROOT)
            assert (rates is None and moved is None) or rates.tolist() == moved.tolist()
            assert rule.ceiling(scores).tolist() == ceiling.tolist()
