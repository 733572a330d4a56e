"""`outrider compare`: drafters side by side over the same prompts."""

import logging
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, final

from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode

from outrider.base.errors import ConfigError, OutriderError
from outrider.base.interruption import advising
from outrider.base.terminal import remark, visible
from outrider.base.waiting import bars
from outrider.cli.comparison import best, print_comparison
from outrider.cli.gate import Gate
from outrider.cli.replay import error_of, replayed
from outrider.cli.reports import chosen_reports
from outrider.cli.settings import Compare
from outrider.cli.work import Work, flags_of_config
from outrider.lab.measuring.compare import PROTOCOLS
from outrider.lab.measuring.laws import READINGS
from outrider.lab.measuring.machine import load
from outrider.lab.measuring.measurement import Measurement
from outrider.lab.runs.files import FACTS
from outrider.lab.runs.frames import write_json
from outrider.lab.runs.report import Report
from outrider.lab.runs.run import Run
from outrider.lab.runs.store import RunFolder, unfinished
from outrider.lab.runs.summary import Summary
from outrider.lab.statistics.pairs import comparable
from outrider.lab.tables.details import out_of_reach
from outrider.plugins.fingerprint import hash_of


@final
@dataclass(frozen=True, slots=True)
class Measured:
    """What a comparison has measured: its figures, the files of its reports, and what failed."""

    folder: RunFolder
    summary: Summary
    files: Sequence[Path]
    failure: OutriderError | None
    gate: Gate | None

    def check(self) -> None:
        """Raises the error of the drafters that failed, if any did."""
        if self.failure is not None:
            raise self.failure

    def hold_to_baseline(self) -> None:
        """Prints how the run stands to its baseline; raises `OutriderError` if `fail_if` holds."""
        if self.gate is not None:
            passes, line = self.gate.judged(self.summary)
            if not passes:
                raise OutriderError(line)
            remark(line)


def compare(settings: Compare) -> float | None:
    """Prints the table; measurements and the report are saved in Hydra's run dir.

    Returns the rate in `objective`, that of the best drafter, for a sweeper to make larger.

    Raises:
        OutriderError: a drafter failed, or `fail_if` holds; what was measured is printed before.
    """
    run = measured(settings)
    summary = run.summary
    with advising(partial(_advice, run.folder)):
        if run.failure is None or any(not row.control for row in summary.rows):
            print_comparison(summary, settings)
            for path in run.files:  # a page as what a browser opens
                place = path.absolute().as_uri() if path.suffix == ".html" else path
                remark(place, stderr=False)
        run.check()
    run.hold_to_baseline()
    return None if settings.objective is None else best(summary, settings.objective)


def measured(settings: Compare) -> Measured:
    """Measures a comparison, and has its reports follow it, in Hydra's run dir."""
    # Hydra would print the log of all libraries, and matplotlib logs where it finds its fonts.
    logging.getLogger("matplotlib").setLevel(logging.WARNING)
    if not settings.resume and (path := _unfinished()) is not None:
        words = shlex.join(["resume=true", f"hydra.run.dir={path}"])
        remark(f"an unfinished run is in {path}: to continue it, add {words} to its command")
    folder = HydraConfig.get().runtime.output_dir
    later = f"; afterwards `outrider report {folder}` makes it"
    reports = chosen_reports(settings.reports, later=later)
    gate = Gate.of(settings.baseline, settings.fail_if)
    work = Work(settings if settings.card is None else replayed(settings))
    with (
        _opened(settings, work.facts, gate) as run_folder,
        advising(lambda: _advice(run_folder)),
        bars() as screen,
    ):
        asked = [prompt for prompt, *_ in work.facts["questions"]]
        answers = "overlap" in PROTOCOLS[settings.protocol]
        total = len(asked) - (0 if answers else len(set(asked)))
        writing = screen.add_task("the target writes", total=total, visible=total > 0)
        all_questions = work.questions(lambda: screen.update(writing, advance=1, refresh=True))
        tokens = [question.tokens for question in all_questions]
        run_folder.confirm("questions_sha256", hash_of(tokens))
        each = len(run_folder.run.drafters) * len(PROTOCOLS[settings.protocol])
        task = screen.add_task(
            "measuring", total=len(all_questions) * each, completed=len(run_folder.measurements)
        )
        measuring = work.measure(all_questions, tuple(run_folder.measurements))
        try:
            with reports.following(run_folder.run):
                failure = _store(measuring, run_folder, reports, partial(screen.update, task))
            if settings.card is not None:
                run_folder.confirm("sketch_error", _sketch_error(settings, run_folder))
        finally:  # an interrupted run leaves the figures of what it finished
            run_folder.end(load())
            summary = Summary(run_folder.run)
            write_json(summary, run_folder.path)
    with advising(lambda: _advice(run_folder)):
        written = reports.end({"": summary}, run_folder.path)
    files = (run_folder.path / "comparison.json", *written)
    return Measured(run_folder, summary, files, failure, gate)


def _sketch_error(settings: Compare, run_folder: RunFolder) -> dict[str, dict[str, float]]:
    """Returns by drafter and rate how far the figures differ in other readings of the card."""
    others = []
    for reading in READINGS[1:]:
        work = Work(replayed(settings, reading))
        found = [*work.measure(work.questions(lambda: None), ())]
        others.append(Summary(Run.of(run_folder.path, work.facts, found)))
    return error_of(Summary(run_folder.run), others)


def _store(
    measuring: Iterable[Measurement],
    run_folder: RunFolder,
    reports: Report,
    update: Callable[..., None],
) -> OutriderError | None:
    """Returns the error of the drafters that failed, once what the others did is stored."""
    try:
        for measurement in measuring:
            run_folder.add(measurement)
            if measurement.error is None:
                reports.add(measurement)
            else:
                remark(f"{measurement.drafter} failed: {measurement.error}")
            step = f"{measurement.protocol}, prompt {measurement.prompt}, {measurement.drafter}"
            update(advance=1, description=visible(step), refresh=True)
    except OutriderError as error:
        if not run_folder.run.failed:
            raise
        return error
    return None


def _opened(settings: Compare, facts: Mapping[str, Any], gate: Gate | None) -> RunFolder:
    """Returns the folder of the run, once it is said what so few prompts can't show."""
    parts, reference = facts["drafters"], facts["reference"]
    tests = len(comparable(list(parts), parts, reference))
    for note in out_of_reach(len({prompt for prompt, *_ in facts["questions"]}), tests):
        hint = ", or fewer with reference=DRAFTER" if tests > 2 and reference is None else ""
        remark(note + hint)
    if gate is not None:
        gate.check(facts)
    run_folder = RunFolder(_run_path(settings.resume), facts, resume=settings.resume)
    if changed := ", ".join(run_folder.changed):
        remark(f"measured anew, since code or weights have changed: {changed}")
    return run_folder


def _run_path(resume: bool) -> Path:
    """Returns the folder of the run: Hydra's, or that of the unfinished run to resume.

    A job of a sweep always has its own folder, and resumes the run there.
    """
    output = Path(HydraConfig.get().runtime.output_dir)
    is_sweep = HydraConfig.get().mode == RunMode.MULTIRUN
    if not resume or is_sweep or (output / FACTS).is_file():
        return output
    if (path := _unfinished()) is None:
        raise ConfigError(f"resume=True: expected an unfinished run in {output.parent}")
    return path


def _unfinished() -> Path | None:
    """Returns the newest run beside this one, if it is unfinished; none beside a job of a sweep."""
    is_sweep = HydraConfig.get().mode == RunMode.MULTIRUN
    return None if is_sweep else unfinished(Path(HydraConfig.get().runtime.output_dir).parent)


def _advice(run_folder: RunFolder) -> str | None:
    """Returns how to continue an interrupted run; None if it has measured nothing."""
    count = sum(measurement.error is None for measurement in run_folder.measurements)
    if not count:
        return None
    hydra, saved = HydraConfig.get(), f"{count} measurements are saved"
    if hydra.mode == RunMode.MULTIRUN:
        where = shlex.quote(f"hydra.sweep.dir={hydra.sweep.dir}")
        return f"{saved}: the same command with resume=true {where} continues"
    replaced = ("resume", "hydra.run.dir", "hydra.mode")
    kept = [
        override
        for override in (*hydra.overrides.task, *hydra.overrides.hydra)
        if override.partition("=")[0] not in replaced
    ]
    words = [*kept, "resume=true", f"hydra.run.dir={run_folder.path}"]
    command = shlex.join(["outrider", hydra.job.name, *flags_of_config(), *words])
    return f"{saved}. To continue: {command}"
