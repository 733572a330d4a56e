"""The result of serve-check: a table, JSON, profiles, and an error if something is wrong."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, final

from rich.box import SIMPLE_HEAD
from rich.table import Table

from outrider.base.folders import write_whole
from outrider.base.terminal import plain
from outrider.extras.serving.vllm_server import Drafted
from outrider.lab.measuring.text_differences import Difference
from outrider.lab.runs.speculation_profile import NAME, Subject, profile
from outrider.lab.statistics.acceptance import Acceptance
from outrider.lab.statistics.intervals import Interval


def acceptance_of(counts: Drafted, gamma: int) -> Acceptance | None:
    """Returns the acceptance that vLLM counted; None if it counted none by position.

    vLLM counts over all texts, so there is no mean per request, and there are no intervals. Only
    rounds with a draft count.

    gamma: the number of positions.
    """
    if not counts.by_position or not counts.drafts:
        return None
    reached = [counts.drafts, *counts.by_position[:gamma]]
    reached += [0] * (gamma + 1 - len(reached))
    ends = [before - after for before, after in pairwise([*reached, 0])]
    return Acceptance(
        {length: count for length, count in enumerate(ends, start=1) if count},
        Interval(sum(reached) / counts.drafts, None, None),
        None,
        tuple(count / counts.drafts for count in reached[1:]),
        tuple(after / before if before else None for before, after in pairwise(reached)),
    )


def write_profile(
    name: str,
    counts: Drafted,
    settings: Mapping[str, Any],
    conditions: Mapping[str, Any],
    *,
    folder: Path,
) -> None:
    """Writes the profile of a drafter into a folder of its own, unless there is nothing to say.

    settings: of the run, with its `drafter`. conditions: what it was measured with.
    """
    found = acceptance_of(counts, int(settings["gamma"]))
    if found is None:
        return
    subject = Subject(settings["drafter"], settings.get("target"))
    path = folder / "profiles" / name.replace("/", "-") / NAME
    write_whole(path, json.dumps(profile(found, subject, conditions), indent=2) + "\n")


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
        ties = str(sum(difference.is_tie for found in differing for difference in found))
        shown.add_row(plain(name), "lab", *_cells(comparison.lab), "", "", "")
        shown.add_row("", "vLLM", *_cells(comparison.vllm), *alike, ties)
    return shown


def _cells(counts: Drafted) -> tuple[str, str, str, str]:
    rate = f"{counts.accepted / counts.drafted:.3f}" if counts.drafted else "-"
    return str(counts.drafts), str(counts.drafted), str(counts.accepted), rate


def fault(comparisons: Mapping[str, Comparison]) -> str | None:
    """Returns what is wrong, in a line."""
    wrong = sum(
        not difference.is_tie
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
