"""What a draft costs matches a hand calculation."""

import pytest

from outrider.drafters.prompt_lookup import PromptLookup
from outrider.extras.bench import ours
from outrider.extras.bench.measure import Run
from outrider.extras.bench.report import bench_lines, draft_costs
from outrider.lab.measuring.text_differences import Difference
from outrider.lab.tables.rates import ITSELF
from outrider.testing.tiny_targets import tiny_target


def run(prompt: int, repeat: int, drafts: list[float], whole: float) -> Run:
    rounds = [9.0, 9.0, *[whole] * (len(drafts) - 2)]
    return Run(repeat, prompt, "outrider a", [7], 1.0, {}, len(drafts), drafts, rounds)


RUNS = [
    run(0, 0, [5.0, 6.0, 1.0, 2.0], 4.0), run(0, 1, [5.0, 6.0, 2.0, 2.0], 4.0),
    run(0, 2, [5.0, 6.0, 8.0, 8.0], 8.0), run(1, 0, [5.0, 6.0, 2.0], 4.0),
    run(1, 1, [5.0, 6.0, 2.0], 4.0), run(1, 2, [5.0, 6.0, 2.0], 4.0),
    Run(0, 0, "outrider plain", [7], 1.0, {}, 1, [1.0], [1.0]),
    Run(0, 0, "transformers plain", [7], 1.0),
]  # fmt: skip


def test_a_draft_costs_its_share_of_typical_rounds() -> None:
    # Three drafts: two that take 4 seconds in the middle repeat, and one that takes 2.
    assert draft_costs(RUNS) == {"outrider a": {"seconds": 2.0, "share": 0.5}}


def test_a_drafter_that_is_the_target_is_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PromptLookup, "is_target", True)
    parts = {"target": tiny_target(5), "drafter": PromptLookup(), "verifier": None}
    monkeypatch.setattr(ours, "build", parts.get)
    settings = {name: name for name in (*parts, "gamma", "budget", "sampling")}
    answer = ours.start(settings)({"ask": "is_target"})
    assert answer == {"is_target": True}
    facts = {"ratios": [], "drafting": {}, "target_itself": ["outrider lookup"], "curves": {}}
    differing = [("peer", Difference(0, 1, 0.25)), ("peer", Difference(1, 2, 0.0))]
    marked, agreement = bench_lines(facts, RUNS, differing)
    assert marked == f"outrider lookup: {ITSELF}"
    assert agreement.endswith("2 differ, 1 of them at ties of float32\n  peer, prompt 0, token 1:"
                              " logits 0.25 apart")  # fmt: skip
