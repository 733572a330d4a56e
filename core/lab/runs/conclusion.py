"""Finding: what a comparison showed, in a few sentences."""

from collections.abc import Mapping, Sequence

from outrider.lab.runs.summary import Row
from outrider.lab.statistics.intervals import FEWEST, Interval
from outrider.lab.statistics.pairs import Pair

LEVEL = 0.05
"""Below this p-value, after Holm's correction, a lead counts as more than chance."""


def finding(rows: Sequence[Row], pairs: Sequence[Pair] = ()) -> list[str]:
    """Returns which drafter is the fastest, or has the highest alpha if nothing was timed.

    Further sentences say how sure that is, and on which tasks another drafter is faster. Empty if
    no drafter drafted, or if there is nothing to compare with.

    pairs: the differences between these drafters, for the lead of the fastest.
    """
    if len(rows) < 2:
        return []
    timed = ranked(rows, "speedup")
    if timed:
        (row, speedup), *others = timed
        sentences = [_fastest(row, speedup, others=len(others)), _chance(row, speedup)]
        if speedup.value > 1:
            sentences += [_lead(row, others[0][0], pairs) if others else "", _by_task(rows, row)]
        if row.doubts:
            sentences.append(f"Doubtful: {', '.join(row.doubts)}.")
        return [sentence for sentence in sentences if sentence]
    by_alpha = ranked(rows, "alpha")
    if not by_alpha:
        return []
    best, alpha = by_alpha[0]
    return [f"{best.drafter} has the highest alpha, {_figure(alpha)}."]


def ranked(rows: Sequence[Row], rate: str, task: str | None = None) -> list[tuple[Row, Interval]]:
    """Returns the rows that have a rate and drafted something, the highest rate first.

    task: counts the prompts of this task only. Defaults to all prompts.
    """
    pairs = [
        (row, figure)
        for row in rows
        if (figure := _rates(row, task).get(rate)) is not None and _drafted(row)
    ]
    return sorted(pairs, key=lambda pair: -pair[1].value)


def _rates(row: Row, task: str | None) -> Mapping[str, Interval | None]:
    return row.rates if task is None else row.tasks.get(task, {})


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
    name = f"{row.drafter} is the fastest" if others else f"{row.drafter} is faster"
    return f"{name}: {_figure(speedup)} times as fast as plain decoding{calls}."


def _chance(row: Row, speedup: Interval) -> str:
    """Returns why the speedup may be chance; empty if its interval does not hold 1."""
    if speedup.low is not None and speedup.low <= 1 < speedup.value:
        return "The interval contains 1, so this may be chance: more prompts would tell."
    if speedup.low is not None or row.prompts >= FEWEST:
        return ""
    return f"From {row.prompts} prompt{'s' * (row.prompts > 1)}, too few to say how sure this is."


def _lead(first: Row, second: Row, pairs: Sequence[Pair]) -> str:
    """Returns how far the fastest is ahead of the next, if the two were compared."""
    names = {first.drafter, second.drafter}
    pair = next((p for p in pairs if p.rate == "speedup" and {p.one, p.other} == names), None)
    if pair is None:
        return ""
    lead = _figure(pair.difference if pair.one == first.drafter else opposite(pair.difference))
    if pair.p_holm < LEVEL:
        return f"It leads {second.drafter} by {lead} (p {pair.p_holm:.2g} by Holm)."
    # The interval is of this difference alone, so it need not hold 0.
    return (
        f"Its lead over {second.drafter}, {lead}, may be chance: p is {pair.p_holm:.2g}, after"
        " Holm's correction for all comparisons."
    )


def opposite(difference: Interval) -> Interval:
    """Returns the difference the other way round."""
    low, high = difference.low, difference.high
    if low is None or high is None:
        return Interval(-difference.value, None, None)
    return Interval(-difference.value, -high, -low)


def _by_task(rows: Sequence[Row], fastest: Row) -> str:
    """Returns on which tasks another drafter is faster, of those with prompts enough to tell.

    Empty if there are fewer than two such tasks.
    """
    leaders = {}
    for task in dict.fromkeys(task for row in rows for task in row.tasks):
        best = ranked(rows, "speedup", task)
        if best and best[0][1].low is not None:
            leaders[task] = best[0][0].drafter
    if len(leaders) < 2:
        return ""
    others: dict[str, list[str]] = {}
    for task, drafter in leaders.items():
        if drafter != fastest.drafter:
            others.setdefault(drafter, []).append(task)
    if not others:
        return f"It is the fastest on each of the {len(leaders)} tasks."
    exceptions = "; ".join(f"{name} on {', '.join(names)}" for name, names in others.items())
    return f"By task others are faster: {exceptions}."


def _figure(figure: Interval) -> str:
    if figure.low is None or figure.high is None:
        return f"{figure.value:.2f}"
    return f"{figure.value:.2f} [{figure.low:.2f}, {figure.high:.2f}]"
