"""Gathers the runs in folders; the shards of one run are put together."""

import json
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

from outrider.base.errors import ANY_FAULT, ConfigError, described, require
from outrider.lab.runs.files import run_folders
from outrider.lab.runs.labels import labels
from outrider.lab.runs.run import Run, load
from outrider.lab.runs.summary import Summary

OF_A_SHARD = ("schema", "starts", "ends", "apart", "questions", "questions_sha256")
"""The facts in which shards of one run differ, besides the setting `shard`."""


def gather(folders: Sequence[Path]) -> tuple[list[Run], list[str]]:
    """Returns the runs in the given folders and below them, each once, and what is damaged.

    Raises:
        ConfigError: a folder does not exist, or holds no run that can be read.
    """
    runs: dict[Path, Path] = {}
    for folder in folders:
        require(folder.is_dir(), "report", str(folder), "a folder that exists")
        found = run_folders([folder])
        if not found:
            raise ConfigError(f"{str(folder)!r}: expected a run of `outrider compare` in it")
        runs |= {run_folder.resolve(): run_folder for run_folder in found}
    loaded, damaged = list[Run](), list[str]()
    for run_folder in runs.values():
        try:
            loaded.append(load(run_folder))
        except ConfigError as error:
            damaged.append(str(error))
    if not loaded:
        raise ConfigError("\n".join(damaged))
    return loaded, damaged


def summarised(runs: Sequence[Run]) -> tuple[dict[str, Summary], list[str]]:
    """Returns the summaries of runs by label, and what fails in the figures of the others.

    Raises `ConfigError` if all fail.
    """
    summaries, failed = list[Summary](), list[str]()
    for run in runs:
        try:
            summary = Summary(run)
            _ = summary.rows, summary.pairs, summary.over_plain  # which it keeps
            summaries.append(summary)
        except ANY_FAULT as error:
            failed.append(f"{run.folder}: damaged, {described(error)}")
    if not summaries:
        raise ConfigError("\n".join(failed))
    names = labels([summary.run for summary in summaries])
    return dict(zip(names, summaries, strict=True)), failed


def pooled(runs: Sequence[Run]) -> list[Run]:
    """Returns the runs with all shards of one run put together, at the place of the first.

    Shards agree in all settings but `shard`, in the code and in the weights, and share no prompt.
    If some are missing, the setting names those that are there.
    """
    groups: dict[str, list[Run]] = {}
    for number, run in enumerate(runs):
        facts = {name: fact for name, fact in run.facts.items() if name not in OF_A_SHARD}
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
    is_whole = len(shards) == int(total) and all(each.endswith(f"/{total}") for each in shards)
    settings = {**first.facts["settings"], "shard": None if is_whole else ", ".join(shards)}
    facts = {**first.facts, "settings": settings}
    for name in ("questions", "starts", "ends", "apart"):
        facts[name] = [*chain.from_iterable(run.facts.get(name, ()) for run in runs)]
    failed = {name: why for run in runs for name, why in run.failed.items()}
    found = (m for run in runs for m in run.measurements if m.drafter not in failed)
    return [Run(first.folder, facts, tuple(found), failed)]
