"""A run's figures as JSON, as tables with fixed columns, and as pandas data frames."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from outrider.base.errors import ConfigError
from outrider.base.folders import write_whole
from outrider.lab.measuring.measurement import Measurement
from outrider.lab.runs.conclusion import conclusion_of
from outrider.lab.runs.labels import flatten, labels
from outrider.lab.runs.run import SCHEMA, Run, gather
from outrider.lab.runs.summary import Summary
from outrider.lab.statistics.rates import scores_in
from outrider.plugins.registry import installed

if TYPE_CHECKING:
    import pandas
    import pyarrow

COUNTS = ("drafted", "tested", "accepted")
TIMES = ("seconds", "plain_seconds", "plain_call", "repeats", "plain_repeats")
"""The columns that are fields of `Decoding`."""

SUMS = (
    *("prefixes", "reached", "beta", "rounds", "tested", "accepted", "by_rule", "overshoot"),
    *("survived", "ended", "ceiling", "control"),
)
"""The fields of `Overlap` that are columns."""

QUESTION_COLUMNS = (
    {"prompt": "string", "turn": "int64", "category": "string", "drafter": "string"}
    | {f"overlap_{name}": "list<double>" for name in SUMS}
    | {"overlap_by_rule": "double", "overlap_overshoot": "double"}
    | dict.fromkeys(("rounds", *COUNTS, "emitted"), "int64")
    | {name: "list<double>" if name.endswith("repeats") else "double" for name in TIMES}
    | {"text": "string"}
)
"""The columns of `comparison.parquet` with their Arrow types: a row for each question and drafter.

`overlap_*` are the sums of `Overlap`, null if the protocol was not run; the columns after them are
those of the decode protocol, likewise. Those of scores follow, `NAME` and `plain_NAME`.
"""

ROUND_COLUMNS = (
    {"prompt": "string", "turn": "int64", "drafter": "string", "round": "int64"}
    | {"tokens": "list<int64>", "origins": "list<string>", "pieces": "list<string>"}
    | dict.fromkeys(COUNTS, "int64")
    | dict.fromkeys(("siblings", "ranks"), "list<int64>")
    | dict.fromkeys(("draft", "score", "verify"), "double")
    | {"stop": "string"}
)
"""The columns of `rounds.parquet` with their Arrow types: a row for each round of decoding."""


def tables(run: Run) -> dict[str, "pyarrow.Table"]:
    """Returns the tables `comparison` and `rounds` of a run.

    Their columns and types are the same for every run, so that tables can be concatenated: each
    score that is installed has its columns in all of them. The schema's metadata holds the version
    of the columns as `outrider_schema`.
    """
    rounds = [row for measurement in run.measurements for row in _round_rows(measurement)]
    scores = dict.fromkeys((*installed().of("score"), *scores_in(run.measurements)))
    names = (f"{prefix}{score}" for score in scores for prefix in ("", "plain_"))
    return {
        "comparison": _table(
            _question_rows(run), QUESTION_COLUMNS | dict.fromkeys(names, "double")
        ),
        "rounds": _table(rounds, ROUND_COLUMNS),
    }


def _table(rows: list[dict[str, Any]], columns: dict[str, str]) -> "pyarrow.Table":
    import pyarrow

    def arrow_type(name: str) -> Any:
        item = name.removeprefix("list<").removesuffix(">")
        single = pyarrow.type_for_alias(item)
        return single if item == name else pyarrow.list_(single)

    fields = [(name, arrow_type(kind)) for name, kind in columns.items()]
    schema = pyarrow.schema(fields, metadata={"outrider_schema": str(SCHEMA)})
    return pyarrow.Table.from_pylist(rows, schema=schema)


def _question_rows(run: Run) -> list[dict[str, Any]]:
    rows: dict[tuple[str, int, str], dict[str, Any]] = {}
    for measurement in run.measurements:
        question = _question(measurement)
        key = (measurement.prompt, measurement.turn, measurement.drafter)
        row = rows.setdefault(key, question)
        if measurement.overlap is not None:
            row |= {f"overlap_{name}": v for name, v in asdict(measurement.overlap).items()}
        decoding = measurement.decoding
        if decoding is not None:
            row |= {name: getattr(decoding, name) for name in TIMES}
            row |= asdict(decoding.counts) | dict(decoding.scores)
            row |= {f"plain_{name}": score for name, score in decoding.plain_scores.items()}
            row["text"] = _utf8("".join("".join(step.pieces) for step in decoding.steps))
    return list(rows.values())


def _round_rows(measurement: Measurement) -> list[dict[str, Any]]:
    steps = measurement.decoding.steps if measurement.decoding else ()
    return [
        _question(measurement)
        | {"round": number}
        | asdict(step)
        | {name: [*map(_utf8, getattr(step, name))] for name in ("pieces", "proposed")}
        for number, step in enumerate(steps, start=1)
    ]


def _utf8(text: str) -> str:
    """Returns a text with "?" for each half of a surrogate pair, which a model may write."""
    return text.encode(errors="replace").decode()


def _question(measurement: Measurement) -> dict[str, Any]:
    names = ("prompt", "turn", "category", "drafter")
    return {name: getattr(measurement, name) for name in names}


@final
@dataclass(frozen=True, slots=True)
class Frames:
    """Some runs as data frames. Column `run` is the run's label, as in `outrider report`.

    runs: a row for each run: `folder`, `finished`, and the settings by their dotted names.
    rates: a row for each run and drafter: each rate, and its interval as `_low` and `_high`.
    questions: a row for each run, question and drafter, with `QUESTION_COLUMNS`.
    rounds: a row for each run, question, drafter and round, with `ROUND_COLUMNS`.
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

    Raises `ConfigError` if a folder does not exist, holds no run, or holds a damaged one.
    """
    import pandas

    runs, damaged = gather([Path(folder) for folder in folders])
    if damaged:
        raise ConfigError("\n".join(damaged))
    names = labels(runs)

    def together(frames: Sequence["pandas.DataFrame"]) -> "pandas.DataFrame":
        for name, frame in zip(names, frames, strict=True):
            frame.insert(0, "run", name)
        return pandas.concat(frames, ignore_index=True)

    settings = [
        {"run": name, "folder": str(run.folder), "finished": run.finished}
        | dict(flatten(run.facts["settings"]))
        for name, run in zip(names, runs, strict=True)
    ]
    rates = [pandas.DataFrame([row.plain() for row in Summary(run).rows]) for run in runs]
    arrow = [tables(run) for run in runs]
    return Frames(
        pandas.DataFrame(settings),
        # A rate that was not measured is NaN, as elsewhere in pandas.
        together([each.replace({None: float("nan")}).infer_objects() for each in rates]),
        together([each["comparison"].to_pandas() for each in arrow]),
        together([each["rounds"].to_pandas() for each in arrow]),
    )


def write_json(summary: Summary, folder: Path) -> None:
    """Writes `comparison.json`; see `comparison`."""
    write_whole(folder / "comparison.json", comparison(summary))


def comparison(summary: Summary) -> str:
    """Returns rows, pairs, prompts, settings, and the state of the run, as JSON."""
    run = summary.run
    content = {
        "schema": SCHEMA,
        "rows": [row.plain() for row in summary.rows],
        "pairs": [asdict(pair) for pair in summary.pairs],
        "over_plain": [asdict(pair) for pair in summary.over_plain],
        "by_task": [asdict(pair) for pair in summary.task_pairs],
        "reference": summary.reference,
        "finding": conclusion_of(summary),
        "prompts": summary.prompts,
        "sketch_error": run.facts.get("sketch_error"),
        "settings": run.facts["settings"],
        "drafters": run.facts["drafters"],
        "identity": run.facts.get("identity"),
        "starts": run.facts.get("starts"),
        "lossless": all(run.facts["lossless"].values()),
        "failed": dict(run.failed),
        "finished": run.finished,
    }
    return json.dumps(content, indent=1)
