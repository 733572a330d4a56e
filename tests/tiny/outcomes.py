"""What came of each check, held against what should have been written."""

import signal
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

from outrider import OutriderError, Tokens
from tiny.modes import MODES, Check, Result
from tiny.subject import TIE, Subject

ORDER = ("right", "slow draft", "refused", "wrong", "error")
"""From best to worst; a mode is as good as the worst of its checks.

right: the text is. slow draft: it is, but a copy of the target, drafting for the target, was not
always accepted, so the draft's passes differ from the target's. refused: an error of Outrider's, in
one line. wrong: another text, or layers left out that were not. error: an exception that is not
Outrider's, or has one underneath.
"""
PARTLY = "partly"
"""Of a mode: right in some checks, refused in others."""
SECONDS = 60
"""Of the processor's time that a single check may take."""

Outcome = dict[str, str]
"""What came of one check: its name as `check`, `outcome`, of `ORDER`, and `detail`."""


def outcomes(subject: Subject, mode: str) -> list[Outcome]:
    """Returns what came of each check of a mode."""
    try:
        checks = list(MODES[mode](subject))
    except OutriderError as error:  # a target that is refused before any check
        return [{"check": "", "outcome": "refused", "detail": str(error)}]
    return [{"check": name, **judged(subject, check)} for name, check in checks]


def word(found: Collection[Outcome]) -> str:
    """Returns the word for a mode: the worst of its checks, or that they are partly right."""
    words = {outcome["outcome"] for outcome in found}
    if "refused" in words and len(words) > 1 and not words & {"wrong", "error"}:
        return PARTLY
    return max(words, key=ORDER.index, default="")


def judged(subject: Subject, check: Check) -> Outcome:
    """Returns the outcome of a check, and the line that explains it."""
    try:
        with time_limit(SECONDS):
            found, line = compared(subject, check())
    except OutriderError as error:
        cause, found, line = error.__cause__, "refused", str(error)
        if cause is not None and not isinstance(cause, OutriderError):
            found, line = "error", f"{type(cause).__name__} inside {type(error).__name__}: {line}"
        elif "\n" in line:
            found = "error"
    except Exception as error:  # noqa: BLE001  that none escapes is what is measured
        found, line = "error", f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"
    return {"outcome": found, "detail": line}


def compared(subject: Subject, result: Result) -> tuple[str, str]:
    """Returns whether a result is right, and where it is not."""
    differ = (violation(subject, result, *text) for text in result.texts.items())
    for line in filter(None, (result.fault, *differ)):
        return "wrong", line
    return ("slow draft", result.slow) if result.slow else ("right", "")


def violation(subject: Subject, result: Result, number: int, text: list[int]) -> str:
    """Returns where a text leaves the right one; nothing where it does not, or there is a tie."""
    truth = subject.truths[number]
    accepted = [list(right)[: result.most] for right in truth.texts]
    at = max(Tokens(text).shared(Tokens(right)) for right in accepted)
    if text in accepted or (at < len(truth.gaps) and truth.gaps[at] < TIE):
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
