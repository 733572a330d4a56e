"""Names runs by what differs between them."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from outrider.lab.runs.facts import flatten
from outrider.lab.runs.run import Run


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


def labelled(drafter: str, label: str) -> str:
    """Returns the name of a run's drafter among several runs. label: the run's; may be empty."""
    return f"{drafter}, {label}" if label else drafter


def model(settings: Mapping[str, Any]) -> str:
    """Returns the name of a run's target."""
    target = settings.get("target") or {}
    return str(target.get("model") or str(target.get("_target_", "")).rpartition(".")[2])


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


def config_differences(runs: Mapping[str, Run]) -> dict[str, dict[str, Any]]:
    """Returns the settings that differ: by dotted name, the value in each run.

    The identity, which holds the hashes of code and weights, counts as a setting.

    runs: by label.
    """
    flat = {
        label: dict(flatten({**run.facts["settings"], "identity": run.facts.get("identity", {})}))
        for label, run in runs.items()
    }
    keys = dict.fromkeys(key for settings in flat.values() for key in settings)
    values = {key: {label: settings.get(key) for label, settings in flat.items()} for key in keys}
    return {
        key: by_run
        for key, by_run in values.items()
        if len({json.dumps(value) for value in by_run.values()}) > 1
    }
