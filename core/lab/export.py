"""Export: a run as JSON and parquet, for people's own notebooks."""

import json
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from outrider.lab.measurement import Measurement
from outrider.lab.overlap import Overlap
from outrider.lab.store import Run
from outrider.lab.summary import Summary


def write_json(summary: Summary, folder: Path) -> None:
    """Writes `comparison.json`: `rows`, `pairs`, `prompts`, `settings`, `lossless`, `finished`."""
    run = summary.run
    report = {
        "rows": [row.plain() for row in summary.rows],
        "pairs": [asdict(pair) for pair in summary.pairs],
        "prompts": summary.prompts,
        "settings": run.facts["settings"],
        "drafters": run.facts["drafters"],
        "lossless": all(run.facts["lossless"].values()),
        "finished": run.finished,
    }
    (folder / "comparison.json").write_text(json.dumps(report, indent=1), encoding="utf-8")


def write_parquet(run: Run, folder: Path) -> None:
    """Writes `comparison.parquet`, a row a question and drafter, and `rounds.parquet`."""
    import pyarrow
    from pyarrow import parquet

    tables = {
        "comparison": _questions(run),
        "rounds": [row for each in run.measurements for row in _rounds(each)],
    }
    for name, rows in tables.items():
        parquet.write_table(pyarrow.Table.from_pylist(rows), folder / f"{name}.parquet")


def _questions(run: Run) -> list[dict[str, Any]]:
    rows: dict[tuple[str, int, str], dict[str, Any]] = {}
    for each in run.measurements:
        row = rows.setdefault(
            (each.prompt, each.turn, each.drafter),
            {
                "prompt": each.prompt,
                "turn": each.turn,
                "category": each.category,
                "drafter": each.drafter,
            }
            | dict.fromkeys(f"overlap_{field.name}" for field in fields(Overlap))
            | dict.fromkeys(("rounds", "drafted", "tested", "accepted", "emitted"))
            | dict.fromkeys(("seconds", "plain_seconds", "plain_call", "text")),
        )
        if each.overlap is not None:
            for name, value in asdict(each.overlap).items():
                row[f"overlap_{name}"] = list(value) if isinstance(value, tuple) else value
        if each.decoding is not None:
            row.update(asdict(each.decoding.counts))
            for name in ("seconds", "plain_seconds", "plain_call"):
                row[name] = getattr(each.decoding, name)
            row["text"] = "".join("".join(step.pieces) for step in each.decoding.steps)
    return list(rows.values())


def _rounds(each: Measurement) -> list[dict[str, Any]]:
    steps = each.decoding.steps if each.decoding else ()
    where = {"prompt": each.prompt, "turn": each.turn, "drafter": each.drafter}
    return [
        where
        | {"round": number}
        | {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(step).items()}
        for number, step in enumerate(steps, start=1)
    ]
