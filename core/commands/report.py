"""`outrider report`: any number of runs, in one table and one page."""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from outrider.lab.report import labels, report
from outrider.lab.store import gather
from outrider.lab.summary import Summary
from outrider.lab.table import table


def run(arguments: Sequence[str]) -> None:
    """Gathers the runs in some folders and below, half-finished ones included."""
    parser = argparse.ArgumentParser(
        prog="outrider report",
        description="Gathers runs of `outrider compare`, half-finished ones included, into one table"
        " and one page.",
    )
    parser.add_argument("folders", nargs="+", type=Path, metavar="DIR", help="a run, or a sweep")
    parser.add_argument("--out", type=Path, help="where to write; the first DIR unless told")
    wanted = parser.parse_args(arguments)
    runs = gather(wanted.folders)
    summaries = {label: Summary(each) for label, each in zip(labels(runs), runs, strict=True)}
    folder: Path = wanted.out or wanted.folders[0]
    folder.mkdir(parents=True, exist_ok=True)
    page = report(summaries, folder)
    rows = {label: summary.rows for label, summary in summaries.items()}
    gathered = [
        {"run": str(summary.run.folder), "label": label, **row.plain()}
        for label, summary in summaries.items()
        for row in summary.rows
    ]
    (folder / "report.json").write_text(json.dumps({"rows": gathered}, indent=1), encoding="utf-8")
    console = Console()
    console.print(table(rows, f"{len(runs)} run{'s' if len(runs) > 1 else ''}"))
    for summary in summaries.values():
        if not summary.run.finished:
            done, asked = len(summary.prompts), {key for key, *_ in summary.run.facts["questions"]}
            console.print(f"unfinished, {done} of {len(asked)} prompts: {summary.run.folder}")
    console.print(str(page), soft_wrap=True)
