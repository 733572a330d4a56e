"""The figures of a run as JSON."""

import json
from dataclasses import asdict
from pathlib import Path

from outrider.base.folders import write_whole
from outrider.lab.runs.conclusion import conclusion_of
from outrider.lab.runs.run import SCHEMA
from outrider.lab.runs.summary import Summary


def write_json(summary: Summary, folder: Path) -> None:
    """Writes `comparison.json`; see `comparison`."""
    write_whole(folder / "comparison.json", comparison(summary))


def comparison(summary: Summary) -> str:
    """Returns rows, pairs, prompts, settings, and the state of the run, as JSON."""
    run = summary.run
    content = {
        "schema": SCHEMA,
        "rows": [row.plain() for row in summary.rows],
        "pairs": [asdict(pair) for pair in summary.pairs],
        "over_plain": [asdict(pair) for pair in summary.over_plain],
        "by_task": [asdict(pair) for pair in summary.task_pairs],
        "reference": summary.reference,
        "finding": conclusion_of(summary),
        "prompts": summary.prompts,
        "settings": run.facts["settings"],
        "drafters": run.facts["drafters"],
        "identity": run.facts.get("identity"),
        "starts": run.facts.get("starts"),
        "lossless": all(run.facts["lossless"].values()),
        "failed": dict(run.failed),
        "finished": run.finished,
    }
    return json.dumps(content, indent=1)
