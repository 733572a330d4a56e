"""Finding: what a comparison showed, in a sentence."""

from collections.abc import Sequence

from outrider.lab.intervals import Interval
from outrider.lab.summary import Row


def finding(rows: Sequence[Row]) -> str | None:
    """Returns which drafter is the fastest, or has the highest alpha if nothing was timed.

    None if no drafter drafted, or if there is nothing to compare with.
    """
    if len(rows) < 2:
        return None
    timed = _ranked(rows, "speedup")
    if timed:
        return _fastest(*timed[0], others=len(timed) - 1)
    ranked = _ranked(rows, "alpha")
    if not ranked:
        return None
    best, alpha = ranked[0]
    return f"{best.drafter} has the highest alpha, {_figure(alpha)}."


def _ranked(rows: Sequence[Row], rate: str) -> list[tuple[Row, Interval]]:
    """Returns the rows that have a rate and drafted something, the highest rate first."""
    pairs = [
        (row, figure) for row in rows if (figure := row.rates[rate]) is not None and _drafted(row)
    ]
    return sorted(pairs, key=lambda pair: -pair[1].value)


def _drafted(row: Row) -> bool:
    if row.counts is not None:
        return row.counts.drafted > 0
    coverage = row.rates["coverage"]
    return coverage is None or coverage.value > 0


def _fastest(row: Row, speedup: Interval, *, others: int) -> str:
    tokens = row.rates["block_efficiency"]
    calls = "" if tokens is None else f" and {tokens.value:.2f} tokens per call"
    if speedup.value <= 1:
        subject = "No drafter is" if others else f"{row.drafter} is not"
        nearest = f"{row.drafter} comes nearest, with" if others else "it has"
        return f"{subject} faster than plain decoding here: {nearest} {_figure(speedup)}{calls}."
    doubt = ""
    if speedup.low is not None and speedup.low <= 1:
        doubt = " The interval contains 1, so this may be chance: more prompts would tell."
    name = f"{row.drafter} is the fastest" if others else f"{row.drafter} is faster"
    return f"{name}: {_figure(speedup)} times as fast as plain decoding{calls}.{doubt}"


def _figure(figure: Interval) -> str:
    if figure.low is None or figure.high is None:
        return f"{figure.value:.2f}"
    return f"{figure.value:.2f} [{figure.low:.2f}, {figure.high:.2f}]"
