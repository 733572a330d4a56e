"""A campaign: as many examples as time allows, until one fails; the failure is then shrunk."""

import random
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any, final

import hypothesis
from hypothesis import HealthCheck, Phase, Verbosity

from outrider.base.errors import described
from outrider.extras.fuzzing.attempt import Attempt
from outrider.extras.fuzzing.example import Example
from outrider.extras.fuzzing.outcome import Outcome
from outrider.extras.fuzzing.run import run_example
from outrider.extras.fuzzing.strategies import Pool, examples
from outrider.extras.fuzzing.tally import Tally

Tried = Example | Attempt

CHUNK = 50
"""The number of examples drawn from one seed, with one order of the parts."""


def run_campaign(
    group: str,
    tally: Tally,
    *,
    seed: int = 0,
    seconds: float | None = None,
    runs: int | None = None,
    drafters: Sequence[str] = (),
    progress: Callable[[], None] = lambda: None,
) -> None:
    """Runs examples of one group, and adds them to `tally`.

    It ends at the first failure, which hypothesis then shrinks.

    seed: the same seed draws the same examples.
    seconds, runs: how long to run, and how many examples. Both default to no limit.
    drafters: names of further registered drafters.
    progress: called after each example.
    """
    began, before = monotonic(), tally.runs

    def is_over() -> bool:
        is_late = seconds is not None and monotonic() - began >= seconds
        return is_late or (runs is not None and tally.runs - before >= runs)

    def add(example: Tried, outcome: Outcome) -> None:
        tally.add(example, outcome)
        progress()

    chunk = 0
    try:
        while not is_over() and tally.failure is None:
            left = CHUNK if runs is None else min(CHUNK, runs - (tally.runs - before))
            name = f"{seed}/{group}/{chunk}"
            pool = Pool(tuple(drafters), turn=random.Random(name).randrange(1000))
            _run_chunk(examples(group, pool), name, left, is_over, add)
            chunk += 1
    except _Failed as failed:
        tally.failure = failed.example, failed.reason
    finally:
        tally.seconds += monotonic() - began


@final
class _Failed(Exception):
    """An example broke a promise; in the end, hypothesis raises this for the smallest one."""

    def __init__(self, example: Tried, reason: str) -> None:
        super().__init__(reason)
        self.example, self.reason = example, reason


def _run_chunk(
    strategy: Any,
    seed: str,
    count: int,
    is_over: Callable[[], bool],
    add: Callable[[Tried, Outcome], None],
) -> None:
    """Runs up to `count` examples.

    Raises:
        _Failed: one of them failed; it has been shrunk.
    """
    failed = False

    def run(example: Tried) -> None:
        nonlocal failed
        if not failed and is_over():
            return
        try:
            outcome = run_example(example)
        except Exception as error:
            failed = True
            raise _Failed(example, described(error)) from error
        if not failed:
            add(example, outcome)

    with_examples: Any = hypothesis.given(strategy)  # its own type is incomplete
    settings = hypothesis.settings(
        max_examples=count,
        database=None,
        deadline=None,
        verbosity=Verbosity.quiet,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        print_blob=False,
    )
    hypothesis.seed(seed)(settings(with_examples(run)))()
