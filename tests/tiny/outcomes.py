"""What came of each check, held against what should have been written."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from outrider import OutriderError, Tokens
from tiny.modes import MODES, Check, Result
from tiny.subject import TIE, Subject

ORDER = ("right", "slow draft", "refused", "WRONG", "RAW")
"""From best to worst; a mode is as good as the worst of its checks."""
OFF = 1e-2
"""Logits that are further off, relative to their spread, are other logits; rounding makes 1e-5."""
SECONDS = 60
"""Of the processor's time that a single check may take."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one check.

    outcome: of `ORDER`. right: the text is. slow draft: it is, but a copy of the target, drafting
        for the target, was not always accepted, so the draft's passes differ from the target's.
        refused: an error of Outrider's, in one line. WRONG: another text, or layers left out that
        were not. RAW: an exception that is not Outrider's, or has one underneath.
    """

    mode: str
    check: str
    outcome: str
    detail: str = ""

    def record(self) -> dict[str, str]:
        """Returns the outcome for a line of JSON."""
        return asdict(self)


def outcomes(subject: Subject, modes: list[str]) -> Iterator[Outcome]:
    """Yields what comes of each check of some modes."""
    for mode in modes:
        try:
            checks = list(MODES[mode](subject))
        except OutriderError as error:  # a target that is refused before any check
            yield Outcome(mode, "", "refused", str(error))
        else:
            yield from (Outcome(mode, name, *judged(subject, check)) for name, check in checks)


def judged(subject: Subject, check: Check) -> tuple[str, str]:
    """Returns the outcome of a check, and the line that explains it."""
    try:
        with time_limit(SECONDS):
            result = check()
    except OutriderError as error:
        cause, line = error.__cause__, str(error)
        if cause is not None and not isinstance(cause, OutriderError):
            return "RAW", f"{type(cause).__name__} inside {type(error).__name__}: {line}"
        return ("RAW" if "\n" in line else "refused"), line
    except Exception as error:  # noqa: BLE001  that none escapes is what is measured
        return "RAW", f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"
    return compared(subject, result)


def compared(subject: Subject, result: Result) -> tuple[str, str]:
    """Returns whether a result is right, and where it is not."""
    if result.difference > OFF:
        return "WRONG", f"logits are off by {result.difference:.2g} of their spread"
    for number, text in result.texts.items():
        if line := violation(subject, result, number, text):
            return "WRONG", line
    if not result.is_shorter:
        return "WRONG", "no layer is left out: the logits are the target's"
    if result.best is None or result.calls is None:
        return "right", ""
    if result.calls > result.best:
        line = f"{result.calls} target calls, {result.best} when it drafts as the target writes"
        return "slow draft", line
    return "right", ""


def violation(subject: Subject, result: Result, number: int, text: list[int]) -> str:
    """Returns where a text leaves the right one; nothing where it does not, or there is a tie."""
    truth = subject.truths[number]
    accepted = [list(right)[: result.most] for right in truth.texts]
    if result.truths is not None:
        accepted = [result.truths[number]]
    if text in accepted:
        return ""
    at = max(Tokens(text).shared(Tokens(right)) for right in accepted)
    if result.truths is None and at < len(truth.gaps) and truth.gaps[at] < TIE:
        return ""
    return f"prompt {number} differs at token {at} of {len(accepted[0])}"


@contextmanager
def time_limit(seconds: int) -> Iterator[None]:
    """Ends what runs in it with a `TimeoutError`."""

    def ring(*_: Any) -> None:
        raise TimeoutError(f"not done after {seconds} seconds")

    before = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
