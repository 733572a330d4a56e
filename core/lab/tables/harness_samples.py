"""Samples that lm-evaluation-harness logged, compared by task on the documents that runs share."""

import itertools
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from outrider.base.contents import json_of
from outrider.base.errors import ConfigError
from outrider.lab.statistics.intervals import Interval, Scale, Statistic, interval, ratio
from outrider.lab.statistics.pairs import Comparison, Pair, tested
from outrider.lab.tables.details import pairs_table
from outrider.lab.tables.table import Column, Figure, Table

FILE = re.compile(r"samples_(?P<task>.+)_(?P<date>\d{4}-\d\d-\d\dT[\d.-]+)\.jsonl")
"""How the harness names the file of a task's samples."""

HASHES = ("doc_hash", "prompt_hash", "target_hash")
"""What two samples of the same document, asked in the same way, have in common."""

Document = tuple[Any, ...]


Scores = Mapping[tuple[str, str], Mapping[Document, float]]
"""By task and metric of a run of lm-evaluation-harness, the score of each document.

The metric's name has that of a filter of answers in it, if it is not the harness's default. Only
metrics that are one number for each document are here.
"""


def load(folder: Path) -> Scores:
    """Returns the newest samples of each task in a folder and below it.

    Raises `ConfigError` if a file is not as the harness writes it.
    """
    newest: dict[str, tuple[str, Path]] = {}
    for path in folder.rglob("samples_*.jsonl"):
        if path.is_file() and (named := FILE.fullmatch(path.name)):
            dated = (named["date"], path)
            newest[named["task"]] = max(dated, newest.get(named["task"], dated))
    scores: dict[tuple[str, str], dict[Document, float]] = {}
    for task, (_, path) in sorted(newest.items()):
        for number, line in enumerate(path.read_bytes().splitlines(), 1):
            try:
                sample = json_of(line)
                document = (sample["doc_id"], *(sample[name] for name in HASHES))
                used = sample.get("filter", "none")
                for metric in sample["metrics"]:
                    if isinstance(score := sample[metric], int | float):
                        name = metric if used == "none" else f"{metric}, {used}"
                        scores.setdefault((task, name), {})[document] = float(score)
            except (ValueError, KeyError, TypeError) as error:
                found = f"{type(error).__name__}: {error}"
                what = f"{path}, line {number}: expected a sample of lm-evaluation-harness, {found}"
                raise ConfigError(what) from error
    return scores


def harness_runs(folders: Sequence[Path]) -> dict[str, Scores]:
    """Returns by name those of the folders that have samples in or below them, as `load` reads."""
    return {str(folder): scores for folder in folders if (scores := load(folder))}


def harness_content(runs: Mapping[str, Scores]) -> dict[str, Any]:
    """Returns means and pairs as plain values, for JSON; nothing if there are no runs."""
    if not runs:
        return {}
    scores = {
        name: {rate: None if mean is None else asdict(mean) for rate, mean in found.items()}
        for name, found in means(runs).items()
    }
    pairs = [asdict(pair) for pair in harness_pairs(runs)]
    return {"harness": scores, "harness_pairs": pairs}


def harness_tables(runs: Mapping[str, Scores]) -> list[Table]:
    """Returns the table of the means and that of the differences, if there are any."""
    found, pairs = means(runs), harness_pairs(runs)
    names = list(dict.fromkeys(name for scores in found.values() for name in scores))
    rows = (
        (label, *(mean and Figure(mean) for mean in map(scores.get, names)))
        for label, scores in found.items()
    )
    columns = (Column("", kind="text"), *map(Column, names))
    tables = [Table("lm-evaluation-harness", columns, tuple(rows))] if runs else []
    return [*tables, pairs_table(pairs)] if pairs else tables


def means(runs: Mapping[str, Scores]) -> dict[str, dict[str, Interval | None]]:
    """Returns the mean of each task and metric with its interval, by the run's name."""
    return {
        label: {
            f"{task}: {metric}": interval(_mean(scores.values()), _scale(scores.values()))
            for (task, metric), scores in run.items()
        }
        for label, run in runs.items()
    }


def _mean(scores: Collection[float]) -> Statistic:
    return ratio([*scores], [1.0] * len(scores))


def _scale(scores: Iterable[float]) -> Scale:
    return "logit" if all(0 <= score <= 1 for score in scores) else "linear"


def harness_pairs(runs: Mapping[str, Scores]) -> list[Pair]:
    """Returns the differences between runs on the documents that both have.

    A Holm family is a task's metric, over all pairs of runs.
    """
    comparisons = []
    for (one, first), (other, second) in itertools.combinations(runs.items(), 2):
        for key in sorted(first.keys() & second.keys()):
            shared = [document for document in first[key] if document in second[key]]
            if shared:
                mine, its = (_mean([run[key][it] for it in shared]) for run in (first, second))
                comparisons.append(Comparison(": ".join(key), one, other, mine, its))
    return tested(comparisons)
