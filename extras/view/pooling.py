"""Pooling: runs that differ in their shard of the prompts alone are one run."""

import json
from collections.abc import Sequence
from itertools import chain

from outrider.lab.runs.run import Run

OWN = ("schema", "starts", "ends", "apart", "questions", "questions_sha256")
"""The facts in which shards of one run differ, besides the setting `shard`."""


def pooled(runs: Sequence[Run]) -> list[Run]:
    """Returns the runs with all shards of one run put together, at the place of the first.

    Shards agree in all settings but `shard`, in the code and in the weights, and share no prompt.
    If some are missing, the setting names those that are there.
    """
    groups: dict[str, list[Run]] = {}
    for number, run in enumerate(runs):
        facts = {name: fact for name, fact in run.facts.items() if name not in OWN}
        settings = {**facts.get("settings", {})}
        is_shard = settings.pop("shard", None) is not None
        key = json.dumps([{**facts, "settings": settings}, None if is_shard else number])
        groups.setdefault(key, []).append(run)
    return [run for group in groups.values() for run in _together(group)]


def _together(runs: Sequence[Run]) -> list[Run]:
    first = runs[0]
    prompts = [prompt for run in runs for prompt in run.prompts]
    if len(runs) == 1 or len(set(prompts)) < len(prompts):
        return list(runs)
    shards = [str(run.facts["settings"]["shard"]) for run in runs]
    total = shards[0].partition("/")[2]
    is_whole = {*shards} == {f"{number}/{total}" for number in range(1, int(total) + 1)}
    settings = {**first.facts["settings"], "shard": None if is_whole else ", ".join(shards)}
    facts = {**first.facts, "settings": settings}
    for name in ("questions", "starts", "ends", "apart"):
        facts[name] = [*chain.from_iterable(run.facts.get(name, ()) for run in runs)]
    failed = {name: why for run in runs for name, why in run.failed.items()}
    found = (m for run in runs for m in run.measurements if m.drafter not in failed)
    return [Run(first.folder, facts, tuple(found), failed)]
