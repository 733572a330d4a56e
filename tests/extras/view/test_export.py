"""The JSON and parquet files of a run agree with the run."""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

import outrider.extras.view
from outrider.extras.view.report import Tables
from outrider.lab.runs.frames import tables, write_json
from outrider.lab.runs.run import SCHEMA
from outrider.lab.runs.summary import Summary


def test_parquet_adds_up_to_the_rows(run_in: Callable[..., Any], tmp_path: Path) -> None:
    run = run_in(tmp_path, temperature=1.0).run
    write_json(Summary(run), tmp_path)
    Tables().end({"": Summary(run)}, tmp_path)
    report = json.loads((tmp_path / "comparison.json").read_text())
    table = pyarrow.parquet.read_table(tmp_path / "comparison.parquet").to_pylist()
    rounds = pyarrow.parquet.read_table(tmp_path / "rounds.parquet").to_pylist()
    assert len(table) == 15  # five turns with three drafters
    assert report["finished"] and report["lossless"]
    assert report["prompts"] == ["a", "b", "c", "d"]
    for row in report["rows"]:
        own_rows = [entry for entry in table if entry["drafter"] == row["drafter"]]
        beta = sum(entry["overlap_beta"][0] for entry in own_rows)
        prefixes = sum(entry["overlap_prefixes"][0] for entry in own_rows)
        assert row["alpha"] == pytest.approx(beta / prefixes)
        for name, count in row["counts"].items():
            assert sum(entry[name] for entry in own_rows) == count
        steps = [entry for entry in rounds if entry["drafter"] == row["drafter"]]
        assert len(steps) == row["counts"]["rounds"]
        assert sum(entry["accepted"] for entry in steps) == row["counts"]["accepted"]
        assert any(entry["text"] for entry in own_rows)


def test_tables_of_all_runs_have_the_same_columns(
    run_in: Callable[..., Any], tmp_path: Path
) -> None:
    runs = [
        run_in(tmp_path / protocol, protocol=protocol, stop_after=3).run
        for protocol in ("overlap", "decode")
    ]
    empty = replace(runs[0], measurements=())
    for name in ("comparison", "rounds"):
        parts = [tables(run)[name] for run in (*runs, empty)]
        assert len(pyarrow.concat_tables(parts)) == sum(map(len, parts))
        assert parts[0].schema.metadata[b"outrider_schema"] == str(SCHEMA).encode()


def test_runs_are_read_into_data_frames(run_in: Callable[..., Any], tmp_path: Path) -> None:
    for gamma in (2, 3):
        run_in(tmp_path / str(gamma), gamma=gamma)
    run_in(tmp_path / "unfinished", protocol="overlap", gamma=4, stop_after=7)
    frames = outrider.extras.view.load(tmp_path)
    assert list(frames.runs.run) == ["gamma 2", "gamma 3", "gamma 4"]
    assert list(frames.runs.finished) == [True, True, False]
    assert set(frames.questions.drafter) == {"none", "lookup", "bigram"}
    by_run = frames.questions.groupby("run").emitted.sum()
    assert by_run["gamma 2"] == by_run["gamma 3"] == frames.rounds.tokens.map(len).sum() / 2
    rates = frames.rates.set_index(["run", "drafter"])
    assert rates.loc[("gamma 3", "lookup"), "block_efficiency"] > 1
    assert math.isnan(rates.loc[("gamma 4", "lookup"), "block_efficiency"])
