"""Who measures a comparison: this process, or workers that a cluster lends."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, final

from outrider.base.errors import require
from outrider.base.torchrun import world
from outrider.cli.run_inputs import run_inputs
from outrider.cli.settings import Compare
from outrider.lab.measuring.compare import PROTOCOLS, measure, questions
from outrider.lab.measuring.measurement import Measurement
from outrider.lab.measuring.texts import cache_folder
from outrider.lab.measuring.trial import Watch
from outrider.lab.measuring.variants import Question
from outrider.plugins.config import build


class Work(AbstractContextManager["Work"], ABC):
    """A comparison that is ready to be measured.

    facts: the content of `run.json`, which has to be the same when the run is resumed.
    """

    facts: Mapping[str, Any]

    @abstractmethod
    def questions(self, on_text: Callable[[], None]) -> list[Question]:
        """Returns the questions, in the order of the prompts.

        on_text: called once for each text that the target writes for them.
        """

    @abstractmethod
    def measure(
        self, questions: Sequence[Question], done: Sequence[Measurement], watch: Watch | None = None
    ) -> Iterator[Measurement]:
        """Yields each measurement as soon as it is there; see `outrider.lab.measuring.compare`."""

    def __exit__(self, *_: object) -> None:
        """Ends what the work has started."""


@final
class OneProcess(Work):
    """Measures in this process, one question after the other.

    answers: whether the target's answers to last turns are needed.
    folder: the cache of its texts; None for none.
    """

    def __init__(self, settings: Compare) -> None:
        self.settings = settings
        self.inputs = run_inputs(settings)
        self.facts = self.inputs.facts
        self.answers: bool = "overlap" in PROTOCOLS[settings.protocol]
        self.folder: Path | None = cache_folder() if settings.cache else None
        self._warmed = False

    def questions(self, on_text: Callable[[], None]) -> list[Question]:
        inputs, settings = self.inputs, self.settings
        return questions(
            inputs.target,
            inputs.prompts,
            inputs.writing,
            chat=settings.chat,
            answers=self.answers,
            folder=self.folder,
            on_text=on_text,
        )

    def measure(
        self, questions: Sequence[Question], done: Sequence[Measurement], watch: Watch | None = None
    ) -> Iterator[Measurement]:
        inputs, warmed, self._warmed = self.inputs, self._warmed, True
        yield from measure(
            inputs.target,
            inputs.variants,
            questions,
            inputs.writing,
            protocol=self.settings.protocol,
            done=done,
            watch=watch,
            warmed=warmed,
        )


def work_of(settings: Compare) -> Work:
    """Returns what the settings ask to be measured, by whom they ask it to be.

    Raises:
        ConfigError: a part can't be made, or there are no such workers.
    """
    if settings.workers is None:
        return OneProcess(settings)
    require(world() == 1, "workers", settings.workers, "null where torchrun has started processes")
    work: Work = build(settings.cluster).work(settings)
    return work
