"""Latency and acceptance in detail are shown for each drafter that decoded."""

from outrider.lab.runs.run import Run
from outrider.lab.runs.summary import Summary
from outrider.lab.tables.details import detail_tables
from outrider.lab.tables.table import Table


def contents(table: Table) -> tuple[list[str], list[list[str]]]:
    """The headings, and the cells of each row."""
    rows = [
        [it if isinstance(it, str) else it.number if it else "-" for it in row]
        for row in table.rows
    ]
    return [column.title for column in table.columns], rows


def test_each_table_has_the_figures_of_its_rows(whole_run: Run) -> None:
    summary = Summary(whole_run)
    latency, tokens, depths, positions, contexts = map(contents, detail_tables({"": summary}))
    heads, lines = latency
    assert heads == ["drafter", "time", "mean", "p50", "p90", "p99", "n"]
    own = next(own for own in summary.details if own.row.drafter == "lookup")
    lookup, first = own.row, own.latency["time_to_first_token"]
    assert ["lookup", "time to first token", f"{1000 * first['mean']:.1f}"] in [
        line[:3] for line in lines
    ]
    counted, uncut = (lookup.rates[f"block_efficiency{end}"] for end in ("", "_uncut"))
    assert counted.value == lookup.counts.emitted / lookup.counts.rounds < uncut.value
    assert ["lookup", f"{counted.value:.2f}", f"{uncut.value:.2f}"] in tokens[1]
    tested = lookup.depths["tested_at_n"][0]
    assert ["lookup", "1", f"{tested:.0f}"] in [[*line[:2], line[3]] for line in depths[1]]
    for stretches in (positions, contexts):
        own = [int(line[3]) for line in stretches[1] if line[0] == "lookup"]
        assert sum(own) == lookup.counts.tested


def test_a_run_without_decoding_has_no_details(whole_run: Run) -> None:
    overlaps = tuple(m for m in whole_run.measurements if m.decoding is None)
    facts = {**whole_run.facts, "protocols": ["overlap"]}
    run = Run(whole_run.folder, facts, overlaps)
    assert detail_tables({"": Summary(run)}) == []
