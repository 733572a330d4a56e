"""`outrider report`: any number of runs in one table, and what reports make of them."""

import json
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any, final

from hydra.experimental.callback import Callback
from omegaconf import DictConfig
from rich.console import Console

from outrider.base.bounds import NewFolder, check
from outrider.base.expectations import OneOf
from outrider.base.folders import write_whole
from outrider.base.terminal import plain, print_json, remark, results
from outrider.cli.reports import chosen_reports
from outrider.cli.usage import argument_parser
from outrider.lab.runs.across import pairs_across
from outrider.lab.runs.conclusion import finding_of, history
from outrider.lab.runs.report import Reports
from outrider.lab.runs.run import Run, gather, pooled
from outrider.lab.runs.summary import Summary, summarised
from outrider.lab.statistics.pairs import Pair, check_reference
from outrider.lab.tables.details import detail_tables, pairs_table, plain_rows, settings_tables
from outrider.lab.tables.formats import FORMATS
from outrider.lab.tables.layouts import LAYOUTS
from outrider.lab.tables.rates import rates_table, starred_rates_table
from outrider.lab.tables.table import Table
from outrider.lab.tables.terminal import shown


def report(arguments: Sequence[str]) -> None:
    """Gathers the runs in some folders and below them, unfinished ones included."""
    reports = chosen_reports(later="")
    options = _options(arguments, [*LAYOUTS, *reports.layouts])
    folder: Path = options.out or options.folders[0]
    check({"out": NewFolder}, {"out": str(folder)})
    runs, damaged = gather(options.folders)
    summaries, failed = summarised([_referring(it, options.reference) for it in pooled(runs)])
    damaged += failed
    folder.mkdir(parents=True, exist_ok=True)
    written = reports.end(summaries, folder)
    pairs = pairs_across(summaries) if options.pairs else []
    content = {
        "rows": plain_rows(summaries),
        "pairs": [asdict(pair) for pair in pairs],
        "damaged": damaged,
    }
    as_json = json.dumps(content, indent=1)
    write_whole(folder / "report.json", as_json)
    print_json(as_json)
    console = results()
    if options.layout is not None:
        tables = layout(options.layout, list(summaries.values()), folder, reports)
    else:
        tables = _tables(options, summaries, pairs)
    tables += detail_tables(summaries) if options.details else []
    by_label = {label: summary.run for label, summary in summaries.items()}
    tables += settings_tables(by_label) if options.pairs else []
    _print(console, tables, options.format)
    if options.format is not None:
        return
    for label, summary in summaries.items():
        if (found := finding_of(summary)) is not None:
            console.print(plain(": ".join(filter(None, (label, found.sentence)))))
    if options.pairs and not pairs:
        console.print("no pairs: it takes two runs with a drafter and finished prompts in common")
    for line in [*_unfinished(summaries), *(f"left out: {line}" for line in damaged)]:
        console.print(plain(line))
    for path in written:
        remark(path, stderr=False)


def _referring(run: Run, reference: str | None) -> Run:
    """Returns a run with another reference, if one is given."""
    check_reference(reference, run.facts["drafters"])
    return replace(run, facts={**run.facts, "reference": reference}) if reference else run


def _options(arguments: Sequence[str], layouts: Sequence[str]) -> Namespace:
    parser = argument_parser(
        "report",
        description="Gathers runs of `outrider compare`, unfinished ones included, into one table"
        " and one page.",
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
        help=f"print them in the layout of a paper, or a rate by run: {', '.join(layouts)}",
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
    return parser.parse_args(arguments)


def layout(name: str, summaries: Sequence[Summary], folder: Path, reports: Reports) -> list[Table]:
    """Returns the tables of a layout; a figure has none, and its file is written and printed.

    Raises `ConfigError` if there is no such layout.
    """
    known = (*LAYOUTS, *reports.layouts)
    check({"layout": Annotated[str, OneOf(known)]}, {"layout": name})
    measured = [summary for summary in summaries if summary.rows]
    if name in LAYOUTS:
        return [LAYOUTS[name](measured)]
    path = folder / f"{name}.png"
    write_whole(path, reports.layouts[name](measured))
    remark(path, stderr=False)
    return []


def _print(console: Console, tables: Sequence[Table], form: str | None) -> None:
    if form is not None:
        text = "\n".join(FORMATS[form](each) for each in tables)
        console.print(plain(text), end="", soft_wrap=True)
        return
    for each in tables:
        console.print(*shown(each))


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
    options: Namespace, summaries: Mapping[str, Summary], pairs: Sequence[Pair]
) -> list[Table]:
    """Returns the table of the rates, and those of the differences."""
    counts = sorted({len(summary.prompts) for summary in summaries.values()})
    runs = f"{len(summaries)} runs, " if len(summaries) > 1 else ""
    title = f"{runs}{' to '.join(map(str, counts))} prompts"
    across = [pairs_table(pairs)] if pairs else []
    if options.format is None:
        rows = {label: summary.rows for label, summary in summaries.items()}
        over_plain = next(iter(summaries.values())).over_plain if len(summaries) == 1 else ()
        return [rates_table(rows, title, over_plain=over_plain), *across]
    within = [pairs_table(summary.pairs) for summary in summaries.values() if summary.pairs]
    return [starred_rates_table(summaries, title), *within, *across]


@final
class PrintLayout(Callback):  # type: ignore[misc, unused-ignore]
    """Hydra's callback that prints the runs of a sweep in a layout, once the last has ended."""

    def __init__(self, layout: str) -> None:
        self.layout = layout

    def on_multirun_end(self, config: DictConfig, **_: Any) -> None:
        folder = Path(config.hydra.sweep.dir)
        summaries = [*summarised(gather([folder])[0])[0].values()]
        _print(results(), layout(self.layout, summaries, folder, chosen_reports()), None)
