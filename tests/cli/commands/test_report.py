"""`outrider report`: sweeps and unfinished runs in one table and one page."""

import json
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.usefixtures("drawn_once")


def test_a_sweep_is_gathered(run: Any, quick: list[str], tmp_path: Path) -> None:
    run.done(
        "compare", *quick, "--multirun", "gamma=1,2,3", "reports=[]",
        f"hydra.sweep.dir={tmp_path / 'sweep'}",
    )  # fmt: skip
    lines = tmp_path / "sweep" / "1" / "measurements.jsonl"
    lines.write_text("".join(lines.read_text().splitlines(keepends=True)[:19]))
    out = run.done("report", str(tmp_path / "sweep"), "--pairs", "--out", str(tmp_path / "all"))
    printed = " ".join(out.split())  # times decide how wide a table is, and so where notes break
    assert "3 runs" in printed
    assert "unfinished, 1 of 3 prompts" in printed
    report = json.loads((tmp_path / "all" / "report.json").read_text())
    assert "settings that differ" in printed and "by Holm over" in printed
    compared = {(pair["one"], pair["other"]) for pair in report["pairs"]}
    assert ("bigram, gamma 1", "bigram, gamma 2") in compared and len(compared) == 6
    labels = {(row["label"], row["drafter"]) for row in report["rows"]}
    assert labels == {
        (f"gamma {gamma}", drafter)
        for gamma in (1, 2, 3)
        for drafter in ("none", "prompt_lookup", "bigram")
    }
    assert (tmp_path / "all" / "speedup.png").is_file()
    assert "Unfinished" in (tmp_path / "all" / "report.html").read_text()


def test_a_run_is_printed_as_a_table_for_a_paper(compared: Any, run: Any, tmp_path: Path) -> None:
    compared("protocol=overlap")
    folder = str(tmp_path / "out")
    printed = run.done("report", folder, "--format", "latex", "--reference", "bigram")
    tables = printed.split(r"\begin{table}")
    assert len(tables) == 3 and r"\toprule" in tables[1]  # the rates, and the pairs
    assert "bigram & prompt" in tables[2]
    printed = run.done("report", folder, "--layout", "alpha", "--format", "csv")
    assert printed.splitlines()[0] == "drafter,alpha"
    for words in (("--format", "latex", "--reference", "bigrm"), ("--layout", "table3")):
        assert "did you mean" in run.refused("report", folder, *words)
