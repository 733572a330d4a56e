"""Across runs: what differs in their settings, and drafters compared on the prompts they share."""

import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from outrider.base.errors import ConfigError, require
from outrider.base.terminal import plain
from outrider.lab.runs.facts import flatten
from outrider.lab.runs.files import run_folders
from outrider.lab.runs.run import Run, load
from outrider.lab.runs.summary import Summary
from outrider.lab.statistics.pairs import Comparison, Pair, is_control, tested


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


def settings_table(differences: Mapping[str, Mapping[str, object]]) -> Table:
    """Returns the table of the settings that differ between runs, a column for each run.

    differences: by setting, its value by the run's label.
    """
    result = Table(title="settings that differ", box=SIMPLE_HEAD, collapse_padding=True)
    result.add_column("setting", overflow="fold")
    for label in dict.fromkeys(label for by_run in differences.values() for label in by_run):
        result.add_column(plain(label), overflow="fold")
    for setting, by_run in differences.items():
        result.add_row(*map(plain, (setting, *by_run.values())))
    return result


def pairs_across(summaries: Mapping[str, Summary]) -> list[Pair]:
    """Returns the differences between runs in the rates that both have, a Holm family for each.

    A drafter is compared with the one of the same name in the other run. If no name is in both, and
    each run has one drafter besides `none` and `random`, these two are compared. Only prompts that
    both runs have finished, with the same text, count.

    summaries: by the run's label.
    """
    comparisons = []
    for one, other in itertools.combinations(summaries, 2):
        runs = summaries[one], summaries[other]
        prompts = shared_prompts(*runs)
        rates = [rate for rate in runs[0].compared_rates if rate in runs[1].compared_rates]
        for rate, names in itertools.product(rates, _matched(*runs) if prompts else []):
            comparisons.append(
                Comparison(
                    rate,
                    f"{names[0]}, {one}",
                    f"{names[1]}, {other}",
                    runs[0].statistic(names[0], rate, prompts),
                    runs[1].statistic(names[1], rate, prompts),
                )
            )
    return tested(comparisons)


def shared_prompts(one: Summary, other: Summary) -> list[str]:
    """Returns the prompts that both runs have finished, with the same text in every turn."""
    questions, others = _questions(one.run), _questions(other.run)
    finished = set(other.prompts)
    return [
        prompt
        for prompt in one.prompts
        if prompt in finished and questions[prompt] == others[prompt]
    ]


def _matched(one: Summary, other: Summary) -> list[tuple[str, str]]:
    """Returns the drafters to compare, the name in one run beside that in the other."""
    names, others = _drafters(one.run), _drafters(other.run)
    shared = [(name, name) for name in names if name in others]
    if not shared and len(names) == len(others) == 1:
        return [(names[0], others[0])]
    return shared


def _drafters(run: Run) -> list[str]:
    configs = run.facts["drafters"]
    return [name for name in run.drafters if not is_control(name, configs[name])]


def _questions(run: Run) -> dict[str, list[tuple[int, str]]]:
    questions: dict[str, list[tuple[int, str]]] = {}
    for prompt, turn, text in run.facts["questions"]:
        questions.setdefault(prompt, []).append((turn, text))
    return questions
