"""The tables fit a terminal, and say so if a rule is lossy."""

import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from rich.table import Table

from outrider import Drafter
from outrider.drafters.ngram import bigram
from outrider.lab.intervals import Interval
from outrider.lab.summary import Summary
from outrider.lab.table import cell, pair_table, table, with_interval
from outrider.verifiers.lenient import Lenient
from outrider.verifiers.optimal_transport import OptimalTransport


def printed(shown: Table) -> str:
    console = Console(width=80, file=io.StringIO(), record=True)
    console.print(shown)
    return console.export_text()


@pytest.mark.parametrize("protocol", ["overlap", "decode", "both"])
def test_it_fits_eighty_columns(run_in: Callable[..., Any], tmp_path: Path, protocol: str) -> None:
    summary = Summary(run_in(tmp_path, protocol=protocol).run)
    text = printed(table({"": summary.rows}, "3 prompts"))
    assert "…" not in text
    assert "LOSSY" not in text
    for row in summary.rows:
        for name, rate in row.rates.items():
            if (
                rate is not None
                and name not in ("alpha_rule", "coverage")
                and (protocol != "both" or not name.startswith("expected"))
            ):
                assert cell(rate, name).split("\n")[0] in text


def test_a_long_name_leaves_the_figures_whole(run_in: Callable[..., Any], tmp_path: Path) -> None:
    rows = Summary(run_in(tmp_path, protocol="both").run).rows
    long = [replace(row, drafter="shallow_aggressive_" + row.drafter) for row in rows]
    text = printed(table({"": long}, "3 prompts"))
    assert "…" not in text
    for row in rows:
        assert cell(row.rates["speedup"], "speedup").split("[dim]")[-1].removesuffix("[/]") in text


def test_a_lossy_rule_is_named_and_its_own_alpha_shown(
    run_in: Callable[..., Any], tmp_path: Path
) -> None:
    run = run_in(tmp_path, protocol="overlap", verifier=Lenient(0.1), temperature=1.0).run
    text = printed(table({"": Summary(run).rows}, "3 prompts"))
    assert "LOSSY" in text
    assert "of rule" in text


def test_trees_have_a_ceiling_and_chains_show_none(
    run_in: Callable[..., Any], drafters: dict[str, Drafter], tmp_path: Path
) -> None:
    chains = Summary(run_in(tmp_path / "chains", protocol="overlap", temperature=1.0).run).rows
    assert "ceiling" not in printed(table({"": chains}, "4 prompts"))
    drafters.clear()
    drafters["tree"] = bigram(tree="iid:3x1")
    run = run_in(
        tmp_path / "trees", protocol="overlap", verifier=OptimalTransport(), temperature=1.0
    ).run
    (row,) = Summary(run).rows
    alpha = next(chain for chain in chains if chain.drafter == "bigram").rates["alpha"]
    ceiling = row.rates["alpha_ceiling"]
    assert alpha is not None and ceiling is not None
    assert alpha.value < ceiling.value < 1  # three siblings instead of one
    assert "ceiling" in printed(table({"": [row]}, "4 prompts"))


def test_several_runs_are_told_apart(run_in: Callable[..., Any], tmp_path: Path) -> None:
    rows = Summary(run_in(tmp_path, protocol="overlap").run).rows
    text = printed(table({"gamma 2": rows, "gamma 4": rows}, "2 runs"))
    assert text.count("gamma 2") == text.count("gamma 4") == 3


def test_pairs_are_shown_in_one_rate(run_in: Callable[..., Any], tmp_path: Path) -> None:
    text = printed(pair_table(Summary(run_in(tmp_path).run).pairs))
    assert "alpha: differences" in text
    assert "block_efficiency" not in text


def test_figures_with_their_intervals() -> None:
    assert cell(None, "alpha") == "-"
    assert cell(Interval(0.5, 0.412, 1.0), "alpha") == "0.500\n[dim].41-1.00[/]"
    assert cell(Interval(0.5, None, None), "alpha") == "0.500"
    assert cell(Interval(31.26, 30.0, 32.0), "tokens_per_second") == "31.3"
    assert with_interval(Interval(0.5, None, None), 2) == "0.50"
