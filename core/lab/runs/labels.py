"""Names runs by what differs between them, and says what each of them is."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from outrider.lab.runs.run import Run

FIRST = ("gamma", "sampling.temperature", "max_new_tokens", "verifier", "policy")
"""The settings that tell runs apart, wherever they do."""


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

    Those in `FIRST` do if they tell all apart, and then the keys that none lacks.
    """
    different = differences(facts)
    common = [key for key in different if all(key in flat for flat in facts)]
    names: list[str] = []
    for some in ([key for key in common if key in FIRST], common, [*different]):
        names = [
            ", ".join(f"{key.rpartition('.')[2]} {flat.get(key)}" for key in some) for flat in facts
        ]
        if len(set(names)) == len(names):
            break
    return names


def date(run_facts: Mapping[str, Any]) -> str:
    """Returns when a run was last started, to the minute in UTC; empty if it is not stored."""
    stamp = str((run_facts.get("starts") or [{}])[-1].get("date", ""))
    return f"{stamp[:10]} {stamp[11:16]} UTC" if stamp else ""


def flatten(value: Any, prefix: str = "", *, lists: bool = False) -> Iterator[tuple[str, Any]]:
    """Yields the values in nested mappings, and in lists if so, each with its dotted key."""
    items: Any = value.items() if isinstance(value, Mapping) else None
    if lists and isinstance(value, list | tuple):
        items = enumerate(value)
    if items is None:
        yield prefix, value
        return
    for key, item in items:
        yield from flatten(item, f"{prefix}.{key}" if prefix else str(key), lists=lists)


def differences(facts: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Returns what is not the same in several mappings: by dotted key, the value in each."""
    flat = [dict(flatten(each)) for each in facts]
    values = {key: [each.get(key) for each in flat] for each in flat for key in each}
    return {key: found for key, found in values.items() if any(it != found[0] for it in found)}
