"""What a page says about a run before its figures."""

from collections.abc import Mapping
from typing import Any

from outrider.lab.runs.labels import model, readable
from outrider.lab.runs.run import Run

SETTINGS = {
    "gamma": "gamma",
    "temperature": "sampling.temperature",
    "tokens per text": "max_new_tokens",
    "rule": "verifier",
    "policy": "policy",
}
"""The settings that a page starts with, by their names there."""


def head(run: Run) -> dict[str, str]:
    """Returns the facts of a run that its page starts with, by their titles.

    A run of an earlier version lacks some of them.
    """
    settings, starts = run.facts["settings"], run.facts.get("starts") or [{}]
    start, identity = starts[-1], run.facts.get("identity") or {}
    known = readable(settings)
    facts = {
        "Target": model(settings),
        "Drafters": ", ".join(run.drafters),
        "Settings": ", ".join(
            f"{name} {known[key]}"
            for name, key in SETTINGS.items()
            if known.get(key) not in (None, "")
        ),
        "Machine": _machine(start),
        "Engine": "; ".join(f"{name}: {by}" for name, by in start.get("runs_by", {}).items()),
        "Date": date(run.facts) + (f", {len(starts)} starts" if len(starts) > 1 else ""),
        "Versions": _versions(start, identity),
    }
    return {title: fact for title, fact in facts.items() if fact}


def command(run: Run) -> str:
    """Returns the command that started a run; empty if it is not stored."""
    starts = run.facts.get("starts") or [{}]
    return str(starts[-1].get("command", ""))


def date(run_facts: Mapping[str, Any]) -> str:
    """Returns when a run was last started, to the minute in UTC; empty if it is not stored."""
    stamp = str((run_facts.get("starts") or [{}])[-1].get("date", ""))
    return f"{stamp[:10]} {stamp[11:16]} UTC" if stamp else ""


def _machine(start: Mapping[str, Any]) -> str:
    parts = [
        start.get("accelerator"),
        start.get("processor"),
        f"{start['cores']} cores" if "cores" in start else None,
        f"{start['threads']} threads" if "threads" in start else None,
        f"{start['memory_gib']} GiB" if start.get("memory_gib") else None,
        start.get("system"),
    ]
    return ", ".join(str(part) for part in parts if part)


def _versions(start: Mapping[str, Any], identity: Mapping[str, Any]) -> str:
    outrider = identity.get("outrider") or {}
    libraries = identity.get("libraries") or {}
    parts = [f"outrider {outrider['version']}"] if outrider.get("version") else []
    if start.get("commit"):
        parts.append(f"commit {start['commit']}")
    parts += [f"{name} {number}" for name, number in libraries.items()]
    if start.get("python"):
        parts.append(f"Python {start['python']}")
    return ", ".join(parts)
