"""`outrider report`: any number of runs, in one table and one page."""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from outrider.folders import write_whole
from outrider.lab.page.contents import plain_rows
from outrider.lab.report import labels, write_report
from outrider.lab.store import gather
from outrider.lab.summary import Summary
from outrider.lab.table import table
from outrider.terminal import plain


def report(arguments: Sequence[str]) -> None:
    """Gathers the runs in some folders and below them, unfinished ones included."""
    parser = argparse.ArgumentParser(
        prog="outrider report",
        description="Gathers runs of `outrider compare`, unfinished ones included, into one table"
        " and one page.",
    )
    parser.add_argument("folders", nargs="+", type=Path, metavar="DIR", help="a run, or a sweep")
    parser.add_argument("--out", type=Path, help="the folder to write to (default: the first DIR)")
    options = parser.parse_args(arguments)
    runs = gather(options.folders)
    summaries = {label: Summary(run) for label, run in zip(labels(runs), runs, strict=True)}
    folder: Path = options.out or options.folders[0]
    folder.mkdir(parents=True, exist_ok=True)
    page = write_report(summaries, folder)
    rows = {label: summary.rows for label, summary in summaries.items()}
    content = json.dumps({"rows": plain_rows(summaries)}, indent=1)
    write_whole(folder / "report.json", content)
    console = Console()
    console.print(table(rows, f"{len(runs)} run{'s' if len(runs) > 1 else ''}"))
    for summary in summaries.values():
        if not summary.run.finished:
            finished, prompts = len(summary.prompts), summary.run.prompts
            line = f"unfinished, {finished} of {len(prompts)} prompts: {summary.run.folder}"
            console.print(plain(line))
    console.print(plain(page), soft_wrap=True)
