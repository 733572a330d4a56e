"""`outrider report`: any number of runs, in one table and one page."""

import json
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from itertools import chain
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from outrider.base.folders import write_whole
from outrider.base.terminal import divided, plain, print_json, remarks, results
from outrider.cli.reports import chosen_reports
from outrider.cli.usage import argument_parser
from outrider.extras.view.across import config_differences, gather, pairs_across, settings_table
from outrider.extras.view.best_gamma import best_gamma_lines, best_gammas
from outrider.extras.view.detail_tables import Rows, detail_tables
from outrider.extras.view.details import details
from outrider.extras.view.harness_samples import harness_content, harness_runs, harness_tables
from outrider.extras.view.page.contents import plain_rows
from outrider.extras.view.pooling import pooled
from outrider.extras.view.print_layouts import NAMES, layout
from outrider.extras.view.report import labels
from outrider.extras.view.table_formats import FORMATS, rates_table
from outrider.lab.runs.conclusion import history
from outrider.lab.runs.files import run_folders
from outrider.lab.runs.pair_table import pair_table
from outrider.lab.runs.run import Run
from outrider.lab.runs.summary import Summary
from outrider.lab.runs.table import table
from outrider.lab.statistics.pairs import Pair, check_reference


def report(arguments: Sequence[str]) -> None:
    """Gathers the runs in some folders and below them, unfinished ones included."""
    parser = argument_parser(
        "report",
        description="Gathers runs of `outrider compare`, unfinished ones included, into one table"
        " and one page. Samples of lm-evaluation-harness are compared beside them.",
    )
    parser.add_argument("folders", nargs="+", type=Path, metavar="DIR", help="a run, or a sweep")
    parser.add_argument("--out", type=Path, help="the folder to write to (default: the first DIR)")
    parser.add_argument(
        "--pairs",
        action="store_true",
        help="compare the drafters of different runs on the prompts that both have",
    )
    parser.add_argument(
        "--layout",
        metavar="NAME",
        help=f"print them in the layout of a paper, or a rate by run: {', '.join(NAMES)}",
    )
    parser.add_argument(
        "--format",
        choices=list(FORMATS),
        help="print the tables for a paper or a spreadsheet, with stars for significance",
    )
    parser.add_argument(
        "--details",
        action="store_true",
        help="print latency, and acceptance by position in the draft, in the text and by context",
    )
    parser.add_argument(
        "--reference",
        metavar="DRAFTER",
        help="test this drafter against the others (default: as the run was started)",
    )
    options = parser.parse_args(arguments)
    scored = harness_runs(options.folders)
    folders = [each for each in options.folders if str(each) not in scored or run_folders([each])]
    folder: Path = options.out or options.folders[0]
    harness = harness_tables(scored)
    if not folders:
        folder.mkdir(parents=True, exist_ok=True)
        _write(folder, harness_content(scored))
        _print(results(), harness, options.format)
        return
    runs, damaged = _gathered(folders, options.reference)
    summaries = {label: Summary(run) for label, run in zip(labels(runs), runs, strict=True)}
    folder.mkdir(parents=True, exist_ok=True)
    written = chosen_reports().end(summaries, folder)
    pairs = pairs_across(summaries) if options.pairs else []
    detailed = details(summaries)
    content = {
        "rows": plain_rows(summaries, detailed),
        "pairs": [asdict(pair) for pair in pairs],
        "damaged": damaged,
    }
    _write(folder, content | harness_content(scored))
    console = results()
    tables = _tables(options, summaries, detailed, pairs, folder)
    _print(console, [*tables, *harness], options.format)
    if options.format is not None:
        return
    for line in best_gamma_lines(best_gammas(list(summaries.values()))):
        console.print(plain(line), soft_wrap=True)
    if options.pairs:
        _print_pairs(console, summaries, pairs)
    for line in [*_unfinished(summaries), *(f"left out: {line}" for line in damaged)]:
        console.print(plain(line))
    for path in written:
        remarks(stderr=False).print(plain(path), soft_wrap=True)


def _write(folder: Path, content: Mapping[str, Any]) -> None:
    as_json = json.dumps(content, indent=1)
    write_whole(folder / "report.json", as_json)
    print_json(as_json)


def _print(console: Console, tables: Sequence[Table], form: str | None) -> None:
    if form is not None:
        text = "\n".join(FORMATS[form](each) for each in tables)
        console.print(plain(text), end="", soft_wrap=True)
        return
    for part in chain.from_iterable(map(divided, tables)):
        console.print(part)


def _unfinished(summaries: Mapping[str, Summary]) -> list[str]:
    lines = list[str]()
    for summary in summaries.values():
        run, said = summary.run, history(summary.run)
        if shard := run.facts["settings"].get("shard"):
            said.append(f"A part of the prompts, shard {shard}.")
        if not run.finished:
            said.append(f"unfinished, {len(summary.prompts)} of {len(run.prompts)} prompts")
        lines += [f"{' '.join(said)}: {run.folder}"] * bool(said)
    return lines


def _tables(
    options: Namespace,
    summaries: Mapping[str, Summary],
    detailed: Rows,
    pairs: Sequence[Pair],
    folder: Path,
) -> list[Table]:
    """Returns the tables to show; a layout takes the place of the rates and the differences."""
    rows = {label: summary.rows for label, summary in summaries.items()}
    shown = detail_tables(detailed) if options.details else []
    if options.layout is not None:
        return [*layout(options.layout, list(summaries.values()), folder), *shown]
    title = f"{len(rows)} run{'s' if len(rows) > 1 else ''}"
    if options.format is None:
        return [table(rows, title), *shown]
    families = [*(summary.pairs for summary in summaries.values()), pairs]
    differences = [pair_table(family, narrow=False) for family in families if family]
    settings = _settings(summaries) if options.pairs else []
    return [rates_table(summaries, title), *differences, *shown, *settings]


def _gathered(folders: Sequence[Path], reference: str | None) -> tuple[list[Run], list[str]]:
    """Returns the runs in some folders, shards put together, and what is damaged.

    reference: that of all runs.
    """
    found, damaged = gather(folders)
    runs = pooled(found)
    if reference is None:
        return runs, damaged
    for run in runs:
        check_reference(reference, run.facts["drafters"])
    runs = [replace(run, facts={**run.facts, "reference": reference}) for run in runs]
    return runs, damaged


def _print_pairs(console: Console, summaries: Mapping[str, Summary], pairs: Sequence[Pair]) -> None:
    console.print(*_settings(summaries))
    if pairs:
        console.print(pair_table(pairs))
    else:
        console.print("no pairs: it takes two runs with a drafter and finished prompts in common")


def _settings(summaries: Mapping[str, Summary]) -> list[Table]:
    """Returns the table of the settings that differ, if any do."""
    differences = config_differences({label: run.run for label, run in summaries.items()})
    return [settings_table(differences)] if differences else []
