"""Export: a run as JSON and parquet, for notebooks."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from outrider.lab.measurement import Measurement
from outrider.lab.store import Run
from outrider.lab.summary import Summary

OVERLAP_COLUMNS = (
    "prefixes",
    "reached",
    "beta",
    "rounds",
    "tested",
    "accepted",
    "by_rule",
    "ceiling",
)
"""The columns of the overlap protocol; in the table their names begin with `overlap_`."""

COUNT_COLUMNS = ("rounds", "drafted", "tested", "accepted", "emitted")
TEXT_COLUMNS = ("seconds", "plain_seconds", "plain_call", "text")
"""The columns of the decode protocol, beside the counts."""


def write_json(summary: Summary, folder: Path) -> None:
    """Writes `comparison.json`: rows, pairs, prompts, settings, and the state of the run."""
    run = summary.run
    content = {
        "rows": [row.plain() for row in summary.rows],
        "pairs": [asdict(pair) for pair in summary.pairs],
        "prompts": summary.prompts,
        "settings": run.facts["settings"],
        "drafters": run.facts["drafters"],
        "lossless": all(run.facts["lossless"].values()),
        "finished": run.finished,
    }
    (folder / "comparison.json").write_text(json.dumps(content, indent=1), encoding="utf-8")


def write_parquet(run: Run, folder: Path) -> None:
    """Writes `comparison.parquet`, a row for each question and drafter, and `rounds.parquet`."""
    import pyarrow
    from pyarrow import parquet

    tables = {
        "comparison": _question_rows(run),
        "rounds": [row for measurement in run.measurements for row in _round_rows(measurement)],
    }
    for name, rows in tables.items():
        parquet.write_table(pyarrow.Table.from_pylist(rows), folder / f"{name}.parquet")


def _question_rows(run: Run) -> list[dict[str, Any]]:
    rows: dict[tuple[str, int, str], dict[str, Any]] = {}
    for measurement in run.measurements:
        key = (measurement.prompt, measurement.turn, measurement.drafter)
        row = rows.setdefault(key, _empty_row(measurement))
        if measurement.overlap is not None:
            for name, value in asdict(measurement.overlap).items():
                row[f"overlap_{name}"] = list(value) if isinstance(value, tuple) else value
        decoding = measurement.decoding
        if decoding is not None:
            row.update(asdict(decoding.counts))
            row["seconds"] = decoding.seconds
            row["plain_seconds"] = decoding.plain_seconds
            row["plain_call"] = decoding.plain_call
            row["text"] = "".join("".join(step.pieces) for step in decoding.steps)
    return list(rows.values())


def _empty_row(measurement: Measurement) -> dict[str, Any]:
    """Returns a row with all columns, in their order."""
    row: dict[str, Any] = {
        "prompt": measurement.prompt,
        "turn": measurement.turn,
        "category": measurement.category,
        "drafter": measurement.drafter,
    }
    columns = (*(f"overlap_{name}" for name in OVERLAP_COLUMNS), *COUNT_COLUMNS, *TEXT_COLUMNS)
    return row | dict.fromkeys(columns)


def _round_rows(measurement: Measurement) -> list[dict[str, Any]]:
    steps = measurement.decoding.steps if measurement.decoding else ()
    question = {
        "prompt": measurement.prompt,
        "turn": measurement.turn,
        "drafter": measurement.drafter,
    }
    return [
        question
        | {"round": number}
        | {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in asdict(step).items()
        }
        for number, step in enumerate(steps, start=1)
    ]
