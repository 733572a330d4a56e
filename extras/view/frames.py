"""Frames: runs as pandas data frames, for notebooks."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, final

from outrider.base.errors import ConfigError
from outrider.extras.view.export import tables
from outrider.lab.runs.facts import flatten
from outrider.lab.runs.gathering import gather
from outrider.lab.runs.labels import labels
from outrider.lab.runs.summary import Summary

if TYPE_CHECKING:
    import pandas


@final
@dataclass(frozen=True, slots=True)
class Frames:
    """Some runs as data frames. Column `run` is the run's label, as in `outrider report`.

    runs: a row for each run: `folder`, `finished`, and the settings by their dotted names.
    rates: a row for each run and drafter: each rate, and its interval as `_low` and `_high`.
    questions: a row for each run, question and drafter; see `outrider.extras.view.export`.
    rounds: a row for each run, question, drafter and round.
    """

    runs: "pandas.DataFrame"
    rates: "pandas.DataFrame"
    questions: "pandas.DataFrame"
    rounds: "pandas.DataFrame"


def load(*folders: str | Path) -> Frames:
    """Returns the runs of `outrider compare` in some folders and below them.

    >>> frames = load("outputs/compare")  # doctest: +SKIP
    >>> frames.questions.groupby("drafter").seconds.sum()  # doctest: +SKIP

    Unfinished runs are read as far as they went, and fields of later versions are ignored.

    Raises:
        ConfigError: a folder does not exist, holds no run, or holds a damaged one.
    """
    import pandas

    runs, damaged = gather([Path(folder) for folder in folders])
    if damaged:
        raise ConfigError("\n".join(damaged))
    names = labels(runs)

    def concat(frame_of: Callable[[int], "pandas.DataFrame"]) -> "pandas.DataFrame":
        frames = [frame_of(index) for index in range(len(runs))]
        for name, frame in zip(names, frames, strict=True):
            frame.insert(0, "run", name)
        return pandas.concat(frames, ignore_index=True)

    arrow = [tables(run) for run in runs]
    return Frames(
        runs=pandas.DataFrame(
            [
                {"run": name, "folder": str(run.folder), "finished": run.finished}
                | dict(flatten(run.facts["settings"]))
                for name, run in zip(names, runs, strict=True)
            ]
        ),
        rates=concat(
            # A rate that was not measured is NaN, as elsewhere in pandas.
            lambda index: (
                pandas.DataFrame([row.plain() for row in Summary(runs[index]).rows])
                .replace({None: float("nan")})
                .infer_objects()
            )
        ),
        questions=concat(lambda index: arrow[index]["comparison"].to_pandas()),
        rounds=concat(lambda index: arrow[index]["rounds"].to_pandas()),
    )
