"""Report: one self-contained page about any number of runs, with its figures."""

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from outrider.folders import write_whole
from outrider.lab.figures import figures
from outrider.lab.measurement import Decoding, Measurement
from outrider.lab.prediction import FACTORS
from outrider.lab.store import Run, flatten
from outrider.lab.summary import Summary
from outrider.lab.table import COLUMNS, columns_of

TEMPLATE = Path(__file__).parent / "report.html.jinja"
GENERATIONS = 6
"""How many prompts the page shows texts of."""

CAPTIONS = {
    "alpha": "Alpha: how far the draft and target distributions overlap, on text that the target"
    " wrote.",
    "alpha_rule": "The acceptance under the run's acceptance rule, on the same text.",
    "alpha_tested": "The accepted share of the draft tokens that decoding tested.",
    "speedup": "Speedup over plain decoding, median over prompts.",
    "tokens_over_gamma": "Tokens per target call over the draft length.",
    "speedup_over_gamma": "Speedup over the draft length, expected from tokens and cost.",
    "time_over_gamma": "Time of a whole round over the draft length.",
    "acceptance_by_depth": "Acceptance by the position in the draft.",
    "predicted_against_measured": "Predicted against measured speedup; the line is equality.",
    "categories": "Alpha by category of prompts.",
}


@final
@dataclass(frozen=True, slots=True)
class ShownText:
    """A text on the page.

    pieces: by token, its characters and who wrote it.
    rate: the block efficiency.
    """

    drafter: str
    pieces: list[tuple[str, str]]
    rate: str


def labels(runs: Sequence[Run]) -> list[str]:
    """Returns a different label for each run: what differs between runs, or else its folder.

    What differs is looked for in the settings, and where those agree in the identity: the code and
    the weights.
    """
    if len(runs) == 1:
        return [""]
    for fact in ("settings", "identity"):
        names = _differences([dict(flatten(run.facts.get(fact, {}))) for run in runs])
        if len(set(names)) == len(names):
            return names
    settings = _differences([dict(flatten(run.facts["settings"])) for run in runs])
    both = [", ".join(filter(None, pair)) for pair in zip(settings, names, strict=True)]
    return [
        label if both.count(label) == 1 else f"{label}, {run.folder}".removeprefix(", ")
        for label, run in zip(both, runs, strict=True)
    ]


def _differences(facts: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns for each of several flat mappings the values that are not the same in all."""
    keys = dict.fromkeys(key for flat in facts for key in flat)
    differing = [key for key in keys if len({json.dumps(flat.get(key)) for flat in facts}) > 1]
    return [
        ", ".join(f"{key.rpartition('.')[2]} {flat.get(key)}" for key in differing)
        for flat in facts
    ]


def write_report(summaries: Mapping[str, Summary], folder: Path) -> Path:
    """Writes `report.html`, which needs no other file, and each figure beside it as PNG.

    summaries: by the run's label.
    """
    import jinja2

    rows = {label: summary.rows for label, summary in summaries.items() if summary.rows}
    gammas = {
        label: int(summary.run.facts["settings"]["gamma"]) for label, summary in summaries.items()
    }
    pngs = figures(rows, gammas) if rows else {}
    for name, png in pngs.items():
        write_whole(folder / f"{name}.png", png)
    all_rows = [row for run in rows.values() for row in run]
    template = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    page = template.from_string(TEMPLATE.read_text(encoding="utf-8")).render(
        columns=[(name, name.replace("_", " "), COLUMNS[name][1]) for name in columns_of(all_rows)],
        rows=rows,
        several=len(summaries) > 1,
        pairs={label: summary.pairs for label, summary in summaries.items() if summary.pairs},
        factors=FACTORS,
        figures=[
            (name, CAPTIONS[name], base64.b64encode(png).decode()) for name, png in pngs.items()
        ],
        prompts={label: len(summary.prompts) for label, summary in summaries.items()},
        unfinished=[
            label or str(summary.run.folder)
            for label, summary in summaries.items()
            if not summary.run.finished
        ],
        lossy=sorted({row.drafter for row in all_rows if not row.lossless}),
        settings=_common_settings([summary.run for summary in summaries.values()]),
        generations=_generations(next(iter(summaries.values()))),
    )
    path = folder / "report.html"
    write_whole(path, page)
    return path


def _generations(summary: Summary) -> list[tuple[str, str, list[ShownText]]]:
    """Returns some questions, evenly spaced, each with its title and every drafter's text."""
    answers: dict[tuple[str, int], list[tuple[Measurement, Decoding]]] = {}
    for measurement in summary.run.measurements:
        if measurement.decoding is not None and measurement.prompt in summary.prompts:
            key = (measurement.prompt, measurement.turn)
            answers.setdefault(key, []).append((measurement, measurement.decoding))
    prompts = {(prompt, turn): text for prompt, turn, text in summary.run.facts["questions"]}
    keys = list(answers)
    count = min(GENERATIONS, len(keys))
    generations = []
    for prompt, turn in (keys[i * len(keys) // count] for i in range(count)):
        category = answers[prompt, turn][0][0].category
        title = f"{category}, prompt {prompt}" + (f", turn {turn}" if turn > 1 else "")
        texts = [
            _shown_text(measurement.drafter, decoding)
            for measurement, decoding in answers[prompt, turn]
            if decoding.counts.drafted
        ]
        generations.append((title, prompts[prompt, turn], texts))
    return generations


def _shown_text(drafter: str, decoding: Decoding) -> ShownText:
    pieces = [
        pair for step in decoding.steps for pair in zip(step.pieces, step.origins, strict=True)
    ]
    return ShownText(drafter, pieces, f"{decoding.counts.block_efficiency:.2f}")


def _common_settings(runs: Sequence[Run]) -> list[tuple[str, str]]:
    """Returns the settings that all runs share, without empty ones, targets and lists."""
    settings: list[dict[str, Any]] = [dict(flatten(run.facts["settings"])) for run in runs]
    return [
        (key, str(value))
        for key, value in settings[0].items()
        if all(flat.get(key) == value for flat in settings)
        and value not in (None, "", "???")
        and not key.endswith("_target_")
        and not isinstance(value, list | dict)
    ]
