"""Report: one self-contained page, and its figures, of any number of runs."""

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from outrider.lab.figures import figures
from outrider.lab.measurement import Measurement
from outrider.lab.prediction import FACTORS
from outrider.lab.store import Run
from outrider.lab.summary import Summary
from outrider.lab.table import COLUMNS, columns_of, spread

TEMPLATE = Path(__file__).parent / "report.html.jinja"
GENERATIONS = 6
"""Prompts whose texts the page shows."""

CAPTIONS = {
    "alpha": "Alpha: how far draft and target distributions overlap, on text that the target wrote.",
    "alpha_rule": "The acceptance that the run's rule gives, on the same text.",
    "alpha_tested": "Accepted of all draft tokens that decoding looked at.",
    "speedup": "Speedup over plain decoding, median over prompts.",
    "tokens_over_gamma": "Tokens a target call over the draft length.",
    "speedup_over_gamma": "Speedup over the draft length, expected from tokens and cost.",
    "time_over_gamma": "Time of a whole round over the draft length.",
    "acceptance_by_depth": "Acceptance by the place in the draft.",
    "predicted_against_measured": "Predicted against measured speedup; the line is equality.",
    "categories": "Alpha by category of prompts.",
}


@final
@dataclass(frozen=True, slots=True)
class Shown:
    """A text on the page. pieces: characters and who wrote them, token by token."""

    drafter: str
    pieces: list[tuple[str, str]]
    rate: str


def labels(runs: Sequence[Run]) -> list[str]:
    """Returns what tells each run from the others: the settings that differ, or its folder."""
    flat = [dict(_flat(run.facts["settings"])) for run in runs]
    keys = [key for key in dict.fromkeys(key for each in flat for key in each)]
    apart = [key for key in keys if len({json.dumps(each.get(key)) for each in flat}) > 1]
    found = [
        ", ".join(f"{key.rpartition('.')[2]} {each.get(key)}" for key in apart) for each in flat
    ]
    if len(set(found)) < len(found):  # the same settings twice
        found = [
            f"{label}, {run.folder.name}".removeprefix(", ")
            for label, run in zip(found, runs, strict=True)
        ]
    return found if len(runs) > 1 else [""]


def report(summaries: Mapping[str, Summary], folder: Path) -> Path:
    """Writes `report.html`, which needs no other file, and each figure as PNG beside it.

    summaries: by the run's label.
    """
    import jinja2

    rows = {label: summary.rows for label, summary in summaries.items() if summary.rows}
    gammas = {label: int(each.run.facts["settings"]["gamma"]) for label, each in summaries.items()}
    drawn = figures(rows, gammas) if rows else {}
    for name, png in drawn.items():
        (folder / f"{name}.png").write_bytes(png)
    runs = [summary.run for summary in summaries.values()]
    template = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    every = [row for run in rows.values() for row in run]
    page = template.from_string(TEMPLATE.read_text(encoding="utf-8")).render(
        columns=[(name, name.replace("_", " "), COLUMNS[name][1]) for name in columns_of(every)],
        spread=spread,
        rows=rows,
        several=len(summaries) > 1,
        pairs={label: each.pairs for label, each in summaries.items() if each.pairs},
        factors=FACTORS,
        figures=[
            (name, CAPTIONS[name], base64.b64encode(png).decode()) for name, png in drawn.items()
        ],
        prompts={label: len(each.prompts) for label, each in summaries.items()},
        unfinished=[
            label or str(run.folder)
            for label, run in zip(summaries, runs, strict=True)
            if not run.finished
        ],
        lossy=sorted({row.drafter for row in every if not row.lossless}),
        settings=_common(runs),
        generations=_generations(next(iter(summaries.values()))),
    )
    place = folder / "report.html"
    place.write_text(page, encoding="utf-8")
    return place


def _generations(summary: Summary) -> list[tuple[str, str, list[Shown]]]:
    """Returns some questions, evenly spaced, each with what every drafter made of it."""
    texts: dict[tuple[str, int], list[Measurement]] = {}
    for each in summary.run.measurements:
        if each.decoding is not None and each.prompt in summary.prompts:
            texts.setdefault((each.prompt, each.turn), []).append(each)
    asked = {(prompt, turn): text for prompt, turn, text in summary.run.facts["questions"]}
    keys = list(texts)
    count = min(GENERATIONS, len(keys))
    chosen = [keys[i * len(keys) // count] for i in range(count)]
    return [
        (
            f"{texts[key][0].category}, prompt {key[0]}"
            + (f", turn {key[1]}" if key[1] > 1 else ""),
            asked[key],
            [_shown(each) for each in texts[key] if each.decoding and each.decoding.counts.drafted],
        )
        for key in chosen
    ]


def _shown(each: Measurement) -> Shown:
    assert each.decoding is not None
    pieces = [
        pair for step in each.decoding.steps for pair in zip(step.pieces, step.origins, strict=True)
    ]
    return Shown(each.drafter, pieces, f"{each.decoding.counts.block_efficiency:.2f}")


def _common(runs: Sequence[Run]) -> list[tuple[str, str]]:
    """Returns the settings that all runs share, short enough to be read."""
    flat = [dict(_flat(run.facts["settings"])) for run in runs]
    return [
        (key, str(value))
        for key, value in flat[0].items()
        if all(each.get(key) == value for each in flat)
        and value not in (None, "", "???")
        and not key.endswith("_target_")
        and not isinstance(value, list | dict)
    ]


def _flat(value: Any, prefix: str = "") -> list[tuple[str, Any]]:
    if isinstance(value, Mapping):
        return [
            pair
            for key, each in value.items()
            for pair in _flat(each, f"{prefix}.{key}" if prefix else str(key))
        ]
    return [(prefix, value)]
