"""Details: what a drafter's readers wait for, and its acceptance by place, for each row of runs."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, final

from outrider.extras.view.latency import latency
from outrider.extras.view.positions import Stretch, by_context, by_order, by_position
from outrider.lab.runs.row import Row
from outrider.lab.runs.summary import Summary


@final
@dataclass(frozen=True, slots=True)
class Details:
    """A row of a run, and what belongs to it.

    latency: the times that a reader waits; empty where nothing was decoded.
    positions, contexts, order: acceptance by position in the text, by the length of the context,
        and by the number of the prompt in the run; see `outrider.extras.view.positions`.
    """

    row: Row
    latency: Mapping[str, Mapping[str, float]]
    positions: Sequence[Stretch]
    contexts: Sequence[Stretch]
    order: Sequence[Stretch]

    def plain(self) -> dict[str, Any]:
        """Returns the row and its details as plain values, for JSON."""
        stretches = {"positions": self.positions, "contexts": self.contexts, "order": self.order}
        plain = {name: [asdict(each) for each in some] for name, some in stretches.items()}
        return {**self.row.plain(), "latency": self.latency, **plain}


def details(summaries: Mapping[str, Summary]) -> dict[str, list[Details]]:
    """Returns the details of the rows of each run, by its label."""
    return {
        label: [_of(row, summary) for row in summary.rows] for label, summary in summaries.items()
    }


def _of(row: Row, summary: Summary) -> Details:
    by_prompt = summary.measured(row.drafter)
    texts = [m.decoding for prompt in by_prompt for m in prompt if m.decoding is not None]
    stretches = by_position(by_prompt), by_context(by_prompt), by_order(by_prompt)
    return Details(row, latency(texts), *stretches)
