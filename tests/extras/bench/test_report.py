"""What a draft costs matches a hand calculation; what it reads, the sizes of its matrices."""

import pytest
import torch
from rich.console import Console

from outrider import Drafter, Sampling
from outrider.drafters.eagle import Eagle
from outrider.drafters.medusa import Medusa
from outrider.drafters.mlp_speculator import MLPSpeculator
from outrider.drafters.prompt_lookup import PromptLookup
from outrider.extras.bench import ours
from outrider.extras.bench.measure import Run
from outrider.extras.bench.ours import counted
from outrider.extras.bench.report import (
    BenchResult,
    DraftCost,
    bench_lines,
    draft_cost,
    drafting_entrants,
    drafting_table,
)
from outrider.lab.tables.rates import ITSELF
from outrider.testing.tiny_targets import context_after, tiny_target, write_draft


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


def test_a_draft_is_set_against_the_bytes_read() -> None:
    assert drafting_entrants(RUNS) == ["outrider a"]
    cost = draft_cost(RUNS, "outrider a", [[0, 900, 30, 40], [0, 900, 20]], bandwidth=20.0)
    # Three drafts: two that take 4 seconds in the middle repeat, and one that takes 2.
    assert cost == DraftCost(seconds=2.0, share=0.5, bytes=30, bandwidth=20.0)
    assert cost.plain() == {
        "seconds": 2.0,
        "share": 0.5,
        "bytes": 30,
        "roofline": 1.5,
        "times": pytest.approx(4 / 3),
    }
    assert draft_cost(RUNS, "outrider plain", [[0]], bandwidth=20.0) is None


def test_a_drafter_without_matrices_has_no_roofline() -> None:
    cost = DraftCost(seconds=2e-5, share=0.001, bytes=0, bandwidth=1e10)
    assert (cost.roofline, cost.times) == (None, None)
    console = Console(width=100)
    with console.capture() as capture:
        costs = {"outrider lookup": cost, "outrider eagle": DraftCost(3e-3, 0.2, 2e7, 1e10)}
        console.print(drafting_table(costs))
    rows = [line.split("│")[1:-1] for line in capture.get().splitlines() if "outrider" in line]
    assert [[cell.strip() for cell in row] for row in rows] == [
        ["outrider lookup", "20", "0.1%", "-", "-", "-"],
        ["outrider eagle", "3000", "20.0%", "20.0", "2000", "1.50"],
    ]


def test_a_drafter_that_is_the_target_is_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PromptLookup, "is_target", True)
    parts = {"target": tiny_target(5), "drafter": PromptLookup(), "verifier": None}
    monkeypatch.setattr(ours, "build", parts.get)
    settings = {name: name for name in (*parts, "gamma", "budget", "sampling")}
    answer = ours.start(settings)({"ask": "is_target"})
    assert answer == {"is_target": True}
    result = BenchResult([], {}, {}, {}, [], {}, 1, 1.0, {}, target_itself=["outrider lookup"])
    assert bench_lines(result)[0] == f"outrider lookup: {ITSELF}"


VOCABULARY, WIDTH, NUMBER = 5, 16, 8  # float64


def head() -> int:
    return NUMBER * VOCABULARY * WIDTH


def eagle_step() -> int:
    """One head of 8 for keys and one for values, an inner width of 32, and the fusion."""
    return NUMBER * WIDTH * (2 * WIDTH + WIDTH + 2 * 8 + WIDTH + 3 * 32)


@pytest.mark.parametrize(
    ("drafter", "expected"),
    [
        # Three steps. Attention reads a key and a value of 8 for each of 4, 5 and 6 positions.
        (Eagle("untrained"), 3 * (eagle_step() + head()) + NUMBER * 2 * 8 * (4 + 5 + 6)),
        (Medusa("untrained"), 3 * NUMBER * WIDTH * WIDTH + head()),
        (MLPSpeculator("untrained"), 3 * (2 * NUMBER * WIDTH * WIDTH + head())),
        (PromptLookup(), 0),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_draft_reads_the_matrices_of_its_products(drafter: Drafter, expected: int) -> None:
    target = tiny_target(VOCABULARY)
    drafter.bind(target)
    context = context_after(drafter, target, [0, 1, 0, 1, 0])
    sampling = Sampling(temperature=0.0)
    with torch.no_grad(), counted(drafter) as draft_bytes:
        draft = write_draft(drafter, target, context, gamma=3, sampling=sampling)
    assert len(draft) == 3 and draft_bytes == [expected]
    write_draft(drafter, target, context, gamma=3, sampling=sampling)
    assert draft_bytes == [expected]  # the block has ended
