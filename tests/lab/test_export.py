"""The JSON and parquet files of a run agree with the run."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from outrider.lab.export import write_json, write_parquet
from outrider.lab.summary import Summary


@pytest.mark.parametrize("protocol", ["overlap", "decode", "both"])
def test_parquet_adds_up_to_the_rows(
    run_in: Callable[..., Any], tmp_path: Path, protocol: str
) -> None:
    run = run_in(tmp_path, protocol=protocol, temperature=1.0).run
    write_json(Summary(run), tmp_path)
    write_parquet(run, tmp_path)
    report = json.loads((tmp_path / "comparison.json").read_text())
    table = pyarrow.parquet.read_table(tmp_path / "comparison.parquet").to_pylist()
    rounds = pyarrow.parquet.read_table(tmp_path / "rounds.parquet").to_pylist()
    assert len(table) == 15  # five turns with three drafters
    assert report["finished"] and report["lossless"]
    assert report["prompts"] == ["a", "b", "c", "d"]
    for row in report["rows"]:
        own_rows = [entry for entry in table if entry["drafter"] == row["drafter"]]
        if protocol != "decode":
            beta = sum(entry["overlap_beta"][0] for entry in own_rows)
            prefixes = sum(entry["overlap_prefixes"][0] for entry in own_rows)
            assert row["alpha"] == pytest.approx(beta / prefixes)
        if protocol != "overlap":
            for name, count in row["counts"].items():
                assert sum(entry[name] for entry in own_rows) == count
            steps = [entry for entry in rounds if entry["drafter"] == row["drafter"]]
            assert len(steps) == row["counts"]["rounds"]
            assert sum(entry["accepted"] for entry in steps) == row["counts"]["accepted"]
            assert any(entry["text"] for entry in own_rows)
    assert bool(rounds) == (protocol != "overlap")


def test_json_has_every_figure_with_its_ends(run_in: Callable[..., Any], tmp_path: Path) -> None:
    write_json(Summary(run_in(tmp_path).run), tmp_path)
    report = json.loads((tmp_path / "comparison.json").read_text())
    for name in ("alpha", "alpha_tested", "acceptance_rate", "block_efficiency", "speedup"):
        row = report["rows"][1]
        assert row[f"{name}_low"] <= row[name] <= row[f"{name}_high"]
    assert {"rate", "one", "other", "difference", "p", "p_holm"} <= set(report["pairs"][0])
