"""Checks of a report: each takes a callable that makes one, and raises AssertionError."""

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from outrider.contract.sampling import Sampling
from outrider.drafters.ngram import bigram
from outrider.drafters.none import NoDraft
from outrider.lab.measuring.compare import PROTOCOLS, fit, measure
from outrider.lab.measuring.measurement import Measurement
from outrider.lab.measuring.variants import Question, Settings, Variant
from outrider.lab.runs.report import Report
from outrider.lab.runs.run import Run
from outrider.lab.runs.store import RunFolder
from outrider.lab.runs.summary import Summary
from outrider.targets.tabular import TabularTarget
from outrider.verifiers.token import Token

Make = Callable[[], Report]


def check_a_run_is_followed_to_its_end(make: Make) -> None:
    """It takes a run's beginning, its measurements and its end, and returns files that exist."""
    facts, measurements = tiny_run()
    with TemporaryDirectory(prefix="outrider-") as name:
        report, run = make(), Run(Path(name), facts, measurements)
        with RunFolder(run.folder, facts, resume=False) as run_folder:
            report.begin(run_folder.run)
            for measurement in measurements:
                run_folder.add(measurement)
                report.add(measurement)
        _check_end(report, {"": Summary(run)}, run.folder)


def check_a_run_that_compares_no_drafters_is_followed(make: Make) -> None:
    """It takes a run's beginning, its figures and its end, as `outrider train` has them."""
    with TemporaryDirectory(prefix="outrider-") as name:
        report = make()
        report.begin(Run(Path(name), {"settings": {"gamma": 2}}, ()))
        report.log({"loss": 0.5}, 1)
        _check_end(report, {}, Path(name))


def check_a_run_may_be_stopped(make: Make) -> None:
    """It takes a run that is interrupted or fails after a measurement, which has no end."""
    facts, measurements = tiny_run()
    with TemporaryDirectory(prefix="outrider-") as name:
        report = make()
        report.begin(Run(Path(name), facts, ()))
        report.add(measurements[0])
        report.stop()


def check_several_runs_are_reported(make: Make) -> None:
    """It takes the ends of several runs that it has not followed, as `outrider report` has them."""
    with TemporaryDirectory(prefix="outrider-") as name:
        summary = Summary(Run(Path(name), *tiny_run()))
        report = make()
        report.begin(summary.run)
        report.begin(summary.run)
        _check_end(report, {"one": summary, "other": summary}, Path(name))


def _check_end(report: Report, summaries: Mapping[str, Summary], folder: Path) -> None:
    for path in report.end(summaries, folder):
        assert Path(path).is_file(), f"it says that it wrote {path}, which is no file"


@cache
def tiny_run() -> tuple[Mapping[str, object], tuple[Measurement, ...]]:
    """Returns the facts and the measurements of two drafters on two prompts of a tiny target."""
    target = TabularTarget(vocab_size=6)
    variants = {"none": Variant(NoDraft(), Token()), "bigram": Variant(bigram(), Token())}
    fit(target, variants)
    questions = [Question(str(i), 1, "ids", [0, i], [i, 1, 2, 3]) for i in (1, 2)]
    settings = Settings(gamma=2, max_new_tokens=4, sampling=Sampling())
    facts = {
        "settings": {"gamma": 2, "budget": None, "max_new_tokens": 4, "protocol": "both"},
        "drafters": {name: {"drafter": {}, "verifier": {}, "policy": {}} for name in variants},
        "protocols": list(PROTOCOLS["both"]),
        "lossless": dict.fromkeys(variants, True),
        "questions": [[question.prompt, 1, "ids"] for question in questions],
    }
    return facts, tuple(measure(target, variants, questions, settings))


CHECKS = (
    check_a_run_is_followed_to_its_end,
    check_a_run_that_compares_no_drafters_is_followed,
    check_a_run_may_be_stopped,
    check_several_runs_are_reported,
)
