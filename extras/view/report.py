"""One self-contained page about any number of runs, with its figures."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, final

from outrider.base.folders import write_whole
from outrider.extras.view.page.contents import drawings, runs_page
from outrider.extras.view.page.head import model
from outrider.extras.view.page.stored import PAGE, page_key
from outrider.extras.view.plotting import as_png
from outrider.lab.runs.facts import flatten
from outrider.lab.runs.report import Report
from outrider.lab.runs.run import Run
from outrider.lab.runs.summary import Summary


def labels(runs: Sequence[Run]) -> list[str]:
    """Returns a different label for each run: what differs between runs, and its folder if needed.

    What differs is looked for in the settings, and where those agree in the identity: the code and
    the weights.
    """
    if len(runs) == 1:
        return [""]
    settings = differing([readable(run.facts["settings"]) for run in runs])
    if len(set(settings)) == len(runs):
        return settings
    names = differing([dict(flatten(run.facts.get("identity", {}))) for run in runs])
    if len(set(names)) == len(runs):
        return names
    both = [", ".join(filter(None, pair)) for pair in zip(settings, names, strict=True)]
    return [
        label if both.count(label) == 1 else f"{label}, {run.folder}".removeprefix(", ")
        for label, run in zip(both, runs, strict=True)
    ]


def readable(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns settings by dotted name: a part by that of its class, and a target by its model's."""
    found: dict[str, Any] = {"target": model(settings)}
    for key, value in flatten(settings):
        if key.endswith("._target_"):
            found.setdefault(key.removesuffix("._target_"), str(value).rpartition(".")[2])
        elif key != "target.model":
            found[key] = value
    return found


def differing(facts: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns for each of several flat mappings the values that are not the same in all.

    Keys that some lack, such as the settings of another part, are left out if the rest tells.
    """
    keys = dict.fromkeys(key for flat in facts for key in flat)
    different = [key for key in keys if len({json.dumps(flat.get(key)) for flat in facts}) > 1]
    names: list[str] = []
    for some in ([key for key in different if all(key in flat for flat in facts)], different):
        names = [
            ", ".join(f"{key.rpartition('.')[2]} {flat.get(key)}" for key in some) for flat in facts
        ]
        if len(set(names)) == len(names):
            break
    return names


@final
class Page(Report):
    """The page of the runs, with each of its figures beside it."""

    def end(self, summaries: Mapping[str, Summary], folder: Path) -> tuple[Path, ...]:
        return (write_report(summaries, folder),) if summaries else ()


def write_report(summaries: Mapping[str, Summary], folder: Path) -> Path:
    """Writes `report.html`, which needs no other file, and each figure beside it as PNG.

    summaries: by the run's label.
    """
    drawn = drawings(summaries)
    for name, figure in drawn.items():
        write_whole(folder / f"{name}.png", as_png(figure))
    path = folder / PAGE
    runs = [summary.run for summary in summaries.values()]
    key = page_key(runs[0]) if len(runs) == 1 and runs[0].finished else ""
    write_whole(path, runs_page(summaries, drawn, key=key))
    return path
