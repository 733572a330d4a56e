"""What a worker of a comparison does, in a process of Ray."""

import os
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, final

from hydra.core.singleton import Singleton
from hydra.core.utils import setup_globals

from outrider.base.errors import OutriderError, require
from outrider.cli.settings import Compare
from outrider.cli.work import OneProcess
from outrider.lab.measuring.compare import ask
from outrider.lab.measuring.measurement import Measurement
from outrider.lab.measuring.texts import written
from outrider.lab.measuring.variants import Question, Variant


@final
class Worker:
    """Loads the models once, and measures the questions that it is given."""

    _work: OneProcess

    def start(self, settings: Compare, state: Any, folder: Path) -> tuple[str, dict[str, Any]]:
        """Builds all parts, and returns where that is, and the facts of the run.

        state: that of Hydra. folder: where the command was started.

        Raises:
            ConfigError: a part can't be made, or its figures depend on the order of questions.
        """
        os.chdir(folder)
        setup_globals()
        Singleton.set_state(state)
        self._work = OneProcess(settings)
        check_independent(settings.workers, self._work.variants)
        return platform.node(), dict(self._work.facts)

    def ask(self, texts: Sequence[list[list[int]]]) -> list[list[int]] | list[Question]:
        """Returns the prompts whose texts are needed next, or the questions if none are.

        texts: the texts that were needed before, in their order.
        """
        work, chat = self._work, self._work.settings.chat
        asking = ask(work.target, work.prompts, work.writing, chat=chat, answers=work.answers)
        given = iter(texts)
        try:
            wanted = next(asking)
            while (text := next(given, None) if wanted else []) is not None:
                wanted = asking.send(text)
        except StopIteration as end:
            found: list[Question] = end.value
            return found
        return wanted

    def write(self, prompts: Sequence[Sequence[int]]) -> list[list[int]]:
        """Returns the target's texts for prompts that are written together."""
        writing = self._work.writing
        return written(
            self._work.target,
            prompts,
            writing.sampling,
            writing.max_new_tokens,
            batch=len(prompts),
            folder=self._work.folder,
        )

    def measure(
        self, questions: Sequence[Question], done: Sequence[Measurement]
    ) -> list[Measurement]:
        """Returns the measurements of some questions, but for those that are done."""
        measured = list[Measurement]()
        try:
            measured.extend(self._work.measure(questions, done))
        except OutriderError:
            if all(measurement.error is None for measurement in measured):
                raise
        return measured


def check_independent(workers: int | None, variants: Mapping[str, Variant]) -> None:
    """Raises `ConfigError` if the figures of a question depend on those that came before it."""
    for name, variant in variants.items():
        for is_so, what in (
            (variant.drafter.remembers, "its drafter remembers texts"),
            (variant.policy.learns, "its policy learns from rounds"),
        ):
            require(not is_so, "workers", workers, f"null with {name}: {what}, one after the other")
