"""What `outrider serve-check` found, as a table, as JSON, and as an error if something is wrong."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, final

from rich.box import SIMPLE_HEAD
from rich.table import Table

from outrider.base.terminal import plain
from outrider.extras.serving.served_texts import Difference
from outrider.extras.serving.vllm_server import Drafted


@final
@dataclass(frozen=True, slots=True)
class Comparison:
    """A drafter's counts in the lab and in vLLM, and its texts that differ from vLLM's own.

    beside_sampled: the texts that differ when sampled ones are in the batch.
    audit: the content of `audit.json`, if sampled texts were asked for.
    """

    lab: Drafted
    vllm: Drafted
    differences: list[Difference]
    beside_sampled: list[Difference]
    audit: dict[str, Any] | None


def table(comparisons: Mapping[str, Comparison], texts: int, title: str) -> Table:
    """Returns the counts, and how many texts are as without drafts, alone and beside sampled ones.

    texts: how many there are of each drafter.
    """
    shown = Table(title=title, box=SIMPLE_HEAD, collapse_padding=True, show_edge=False)
    shown.add_column("", overflow="fold", min_width=14)
    for heading in ("", "drafts", "drafted", "accepted", "rate", "alike", "mixed", "ties"):
        shown.add_column(heading, justify="right", no_wrap=True)
    for name, comparison in comparisons.items():
        differing = (comparison.differences, comparison.beside_sampled)
        alike = [f"{texts - len(found)} of {texts}" for found in differing]
        ties = str(sum(difference.tie for found in differing for difference in found))
        shown.add_row(plain(name), "lab", *_cells(comparison.lab), "", "", "")
        shown.add_row("", "vLLM", *_cells(comparison.vllm), *alike, ties)
    return shown


def _cells(counts: Drafted) -> tuple[str, str, str, str]:
    rate = f"{counts.accepted / counts.drafted:.3f}" if counts.drafted else "-"
    return str(counts.drafts), str(counts.drafted), str(counts.accepted), rate


def content(settings: dict[str, Any], comparisons: Mapping[str, Comparison]) -> dict[str, Any]:
    """Returns the content of `serve-check.json`."""
    drafters = {
        name: {
            "lab": asdict(comparison.lab),
            "vllm": asdict(comparison.vllm),
            "differences": _places(comparison.differences),
            "beside_sampled": _places(comparison.beside_sampled),
            "audit": comparison.audit,
        }
        for name, comparison in comparisons.items()
    }
    return {"settings": settings, "drafters": drafters}


def _places(found: Sequence[Difference]) -> list[dict[str, Any]]:
    return [
        {"prompt": difference.prompt, "place": difference.position, "gap": difference.gap}
        for difference in found
    ]


def fault(comparisons: Mapping[str, Comparison]) -> str | None:
    """Returns what is wrong, in a line."""
    wrong = sum(
        not difference.tie
        for comparison in comparisons.values()
        for difference in (*comparison.differences, *comparison.beside_sampled)
    )
    if wrong:
        return f"{wrong} texts are not those that vLLM writes without drafts"
    broken = (line for line in audit_lines(comparisons) if ": broken: " in line)
    return next(broken, None)


def audit_lines(comparisons: Mapping[str, Comparison]) -> list[str]:
    """Returns the verdict of each drafter's audit."""
    return [
        f"{name}: {comparison.audit['line']}"
        for name, comparison in comparisons.items()
        if comparison.audit is not None
    ]
