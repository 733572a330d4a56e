"""What follows a run, such as its page, a table or a logger."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any, final

from outrider.base.errors import ANY_FAULT, described
from outrider.base.terminal import remark
from outrider.lab.measuring.measurement import Measurement
from outrider.lab.runs.run import Run
from outrider.lab.runs.summary import Summary


class Report:
    """Follows a run while it goes on, and to its end. This base class does nothing.

    A run of `outrider compare` has measurements; other commands log figures in their place.

    checks: where the kit finds the checks of its kind.
    """

    checks = "outrider.lab.runs.report_checks:CHECKS"

    layouts: Mapping[str, Callable[[Sequence[Summary]], bytes]] = MappingProxyType({})
    """By name, what draws a figure of some runs as PNG, for `outrider report --layout`."""

    def begin(self, run: Run) -> None:
        """Called before the first measurement; a run that is resumed has some already.

        `outrider report` calls it for each run, whose measurements are then all that it has.
        """

    def add(self, measurement: Measurement) -> None:
        """Called after each measurement: what one drafter did with one question of a prompt."""

    def log(self, figures: Mapping[str, float], step: int) -> None:
        """Called with the figures of a run that compares no drafters, by name, as they come.

        step: of training, of the texts of a bench, or of the requests of an audit.
        """

    def end(self, summaries: Mapping[str, Summary], folder: Path) -> Sequence[Path]:
        """Returns the files that it wrote into `folder` for people to read.

        Called when a run is finished, and by `outrider report` for any number of runs.

        summaries: by the run's label, which is "" if there is only one run; empty for a run that
            compares no drafters.
        """
        return ()

    def stop(self) -> None:
        """Called in the place of `end` if the run is interrupted or fails."""


@final
class Reports(Report):
    """Several reports, by name. One that fails is left out from then on, and the run goes on."""

    def __init__(self, reports: Mapping[str, Report]) -> None:
        self._reports, self._has_begun = dict(reports), False
        layouts = (each.layouts.items() for each in reports.values())
        self.layouts: Mapping[str, Any] = dict(chain.from_iterable(layouts))

    def begin(self, run: Run) -> None:
        self._has_begun = True
        self._of_each(lambda report: report.begin(run))

    def add(self, measurement: Measurement) -> None:
        self._of_each(lambda report: report.add(measurement))

    def log(self, figures: Mapping[str, float], step: int) -> None:
        self._of_each(lambda report: report.log(figures, step))

    @contextmanager
    def following(self, run: Run) -> Iterator[None]:
        """Has them follow a run that goes on inside, and is stopped by what is raised there."""
        self.begin(run)
        try:
            yield
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        self._of_each(lambda report: report.stop())

    def end(self, summaries: Mapping[str, Summary], folder: Path) -> list[Path]:
        for summary in () if self._has_begun else summaries.values():
            self.begin(summary.run)
        written = self._of_each(lambda report: report.end(summaries, folder))
        return [path for paths in written for path in paths]

    def _of_each(self, call: Callable[[Report], Any]) -> list[Any]:
        answers: list[Any] = []
        for name, report in list(self._reports.items()):
            try:
                answers.append(call(report))
            except ANY_FAULT as error:
                del self._reports[name]
                line = f"report {name} failed, the run goes on: "
                line += described(error, type(report).__module__)
                remark(line)
        return answers
