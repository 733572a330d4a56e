"""Names runs by what differs between them."""

from collections.abc import Mapping, Sequence
from typing import Any

from outrider.lab.runs.facts import differences, flatten
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


def brief(run: Run) -> str:
    """Returns what was measured and where, in a line."""
    settings, starts = readable(run.facts["settings"]), run.facts.get("starts") or [{}]
    temperature, cores = settings.get("sampling.temperature"), starts[-1].get("cores")
    parts = [
        model(run.facts["settings"]).rpartition("/")[2],
        f"temperature {temperature:g}" if temperature else "greedy",
        f"draft length {settings['gamma']}",
        f"{settings['max_new_tokens']} tokens per text" if settings.get("max_new_tokens") else "",
        str(starts[-1].get("accelerator") or (f"{cores} CPU cores" if cores else "")),
    ]
    return ", ".join(part for part in parts if part)


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
    """Returns for each of several mappings the values that are not the same in all, in words.

    Keys that some lack, such as the settings of another part, are left out if the rest tells.
    """
    different = differences(facts)
    names: list[str] = []
    for some in ([key for key in different if all(key in flat for flat in facts)], [*different]):
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
    facts = [
        {**run.facts["settings"], "identity": run.facts.get("identity", {})}
        for run in runs.values()
    ]
    return {key: dict(zip(runs, values, strict=True)) for key, values in differences(facts).items()}
