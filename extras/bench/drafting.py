"""What a draft costs, beside the time that reading its matrices takes."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

from rich.table import Table

from outrider.base.terminal import plain
from outrider.extras.bench.entrants import OUTRIDER_PLAIN
from outrider.extras.bench.measure import Run
from outrider.extras.bench.worker import Worker

UNTYPICAL = 2
"""The first rounds of a text, left out: in the first one the target reads the prompt, and in the
second many drafters do."""

DraftBytes = Sequence[Sequence[int]]
"""For each prompt, the bytes of the matrices that each of its drafts multiplies with."""


@final
@dataclass(frozen=True, slots=True)
class DraftCost:
    """The cost of an entrant's average draft, without those of a text's UNTYPICAL rounds.

    seconds: of a draft. share: of the seconds of its round.
    bytes: of the matrices that it multiplies with, a matrix counting once for each product.
    bandwidth: the bytes per second that the machine reads from memory.
    """

    seconds: float
    share: float
    bytes: float
    bandwidth: float

    @property
    def roofline(self) -> float | None:
        """Returns the seconds that reading the matrices takes; None for a draft without any."""
        return self.bytes / self.bandwidth if self.bytes else None

    @property
    def times(self) -> float | None:
        """Returns the draft's seconds as a multiple of its roofline."""
        return None if self.roofline is None else self.seconds / self.roofline

    def plain(self) -> dict[str, Any]:
        """Returns the cost as plain values, for JSON."""
        names = ("seconds", "share", "bytes", "roofline", "times")
        return {name: getattr(self, name) for name in names}


def drafting_entrants(runs: Sequence[Run]) -> list[str]:
    """Returns the names of the entrants that report their drafts, without plain decoding."""
    names = dict.fromkeys(run.entrant for run in runs if run.drafts)
    return [name for name in names if name != OUTRIDER_PLAIN]


def count_draft_bytes(
    worker: Worker, prompts: Sequence[Sequence[int]], max_new_tokens: int
) -> list[list[int]]:
    """Returns the bytes that each draft reads, from texts that are written once more for it."""
    return [
        worker.ask({"ask": "reads", "ids": list(ids), "max_new_tokens": max_new_tokens})["bytes"]
        for ids in prompts
    ]


def draft_cost(
    runs: Sequence[Run], name: str, draft_bytes: DraftBytes, bandwidth: float
) -> DraftCost | None:
    """Returns the cost of an entrant's drafts, or None if all texts are too short to tell.

    The seconds of a text's drafts are the median over its repeats.
    """
    seconds, whole, count = 0.0, 0.0, 0
    own_runs = [run for run in runs if run.entrant == name]
    for prompt in {run.prompt for run in own_runs}:
        repeats = [run for run in own_runs if run.prompt == prompt]
        seconds += statistics.median(sum(run.drafts[UNTYPICAL:]) for run in repeats)
        whole += statistics.median(sum(run.rounds[UNTYPICAL:]) for run in repeats)
        count += len(repeats[0].drafts[UNTYPICAL:])
    counted = [size for sizes in draft_bytes for size in sizes[UNTYPICAL:]]
    if not count or not counted:
        return None
    return DraftCost(seconds / count, seconds / whole, statistics.mean(counted), bandwidth)


def drafting_table(costs: Mapping[str, DraftCost]) -> Table:
    """Returns the table with a row for each entrant that drafts."""
    table = Table(title="a draft, beside the time that reading its matrices takes")
    table.add_column("")
    for heading in ("us", "of a round", "MB read", "roofline us", "times its roofline"):
        table.add_column(heading, justify="right")
    for name, cost in costs.items():
        table.add_row(
            plain(name),
            f"{1e6 * cost.seconds:.0f}",
            f"{cost.share:.1%}",
            f"{cost.bytes / 1e6:.1f}" if cost.bytes else "-",
            "-" if cost.roofline is None else f"{1e6 * cost.roofline:.0f}",
            "-" if cost.times is None else f"{cost.times:.2f}",
        )
    return table
