"""Facts of a run beside those of another start: which have changed, and which may."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from outrider.base.errors import ConfigError

CHANGING = ("schema", "starts", "questions_sha256", "reference", "ends", "apart")
"""The facts that may differ when a run is resumed, or that are added later."""


def flatten(value: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yields the values in nested mappings, each with its dotted key."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from flatten(item, f"{prefix}.{key}" if prefix else str(key))
    else:
        yield prefix, value


def differences(facts: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Returns what is not the same in several mappings: by dotted key, the value in each."""
    flat = [dict(flatten(each)) for each in facts]
    values = {key: [each.get(key) for each in flat] for each in flat for key in each}
    return {key: found for key, found in values.items() if any(it != found[0] for it in found)}


def check_same(saved: Mapping[str, Any], now: Mapping[str, Any], folder: Path) -> None:
    """Raises `ConfigError` if a run's facts have changed; the message names the first change."""
    for key, (old, new) in differences([saved, now]).items():
        name = key.removeprefix("settings.").removeprefix("identity.")
        raise ConfigError(f"resume: {name} is {new!r} now, and was {old!r} in {folder}")


def changed_drafters(saved: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Returns the drafters whose code or weights have changed."""
    old, new = (facts.get("identity") or {} for facts in (saved, now))
    return [name for name in saved["drafters"] if old.get(name) != new.get(name)]


def lasting_facts(facts: Mapping[str, Any], changed: Sequence[str]) -> dict[str, Any]:
    """Returns the facts that have to be the same; the drafters `changed` may be others."""
    kept = {key: value for key, value in facts.items() if key not in CHANGING}
    identity = facts.get("identity") or {}
    return kept | {"identity": {k: own for k, own in identity.items() if k not in changed}}


def as_json(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Returns facts as JSON gives them back: tuples become lists."""
    result: dict[str, Any] = json.loads(json.dumps(facts))
    return result
