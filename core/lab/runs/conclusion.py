"""What a comparison showed: what ranks first, by how much, and whether that may be chance."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

from outrider.lab.runs.row import Row, contenders, drafted, ranking
from outrider.lab.runs.run import Run
from outrider.lab.runs.summary import Summary
from outrider.lab.statistics.intervals import FEWEST
from outrider.lab.statistics.pairs import LEVEL, Pair, drafter_in
from outrider.lab.statistics.permutation_test import prompts_to_reach

NAMED = 3
"""The most names, or reasons, that a sentence lists."""

CONDITION = "On prompts like these"
"""Kinds of prompts are chosen and not drawn, so that no test speaks of other kinds."""

LEADS = {
    "speedup": ("ranks first with {}x", "{}x plain decoding"),
    "block_efficiency": ("has the most tokens per call, {}", "{} tokens per call"),
    "alpha": ("has the highest alpha, {}", "alpha {}"),
}
"""By the rate that ranks, what the first does, and by how much."""


@final
@dataclass(frozen=True, slots=True)
class Finding:
    """The outcome of a comparison.

    first, size, chance: what ranks first, by how much, and what the tests say, each for itself.
    sentence: the three together.
    enough: how many prompts would say more; None if the tests leave nothing open.
    """

    first: str
    size: str
    chance: str
    sentence: str
    enough: int | None


def finding_of(summary: Summary) -> Finding | None:
    """Returns the outcome of one run; None if no drafter drafted, or if one is all that there is.

    Where one drafter was compared with the others, the outcome is about it.
    """
    rows, reference = summary.rows, summary.reference
    pairs, over_plain = summary.pairs, summary.over_plain
    rate = ranking(rows)
    ranked = contenders(rows, rate)
    about = [row for row in ranked if reference in (None, row.drafter, drafter_in(row.drafter))]
    if len(rows) < 2 or not about:
        return None
    first, figure = about[0], about[0].rates[rate]
    others, name = [row for row in ranked if row is not first], first.drafter
    assert figure is not None, "a row that is ranked by a rate has it"
    value, gaps = f"{figure.value:.2f}", _gaps(pairs, rate, name)
    tests = over_plain if rate == "speedup" else ()
    plain = next((pair for pair in tests if pair.one == name), None)
    lead, unit = (form.format(value) for form in LEADS[rate])
    enough, size = 2 * first.prompts, unit + _ends(plain)
    if reference is not None:
        chance, certain = _of_reference(gaps, plain), True
        lead, rest = f"has {size}", f": {chance}"
    elif rate == "speedup" and figure.value <= 1:
        subject = "no drafter was faster" if others else f"{name} was not faster"
        nearest = f"{name} came nearest, with {value}x" if others else f"{value}x"
        sentence = f"{CONDITION}, {subject} than plain decoding: {nearest}."
        return Finding("none", f"{nearest} plain decoding", "", sentence, enough=None)
    elif first.prompts < FEWEST or (plain is not None and not plain.reachable):
        few = f"{first.prompts} prompt{'s are' if first.prompts > 1 else ' is'} too few to tell"
        family = max((pair.family for pair in (*pairs, *over_plain)), default=1)
        enough = max(2 * FEWEST, prompts_to_reach(LEVEL, family))
        chance, certain = f"{few}: use {enough} or more", False
        rest = f", but {chance}"
    elif rate == "speedup" and (plain is None or not plain.significant):
        p = "" if plain is None else f" (p = {plain.p_holm:.2g})"
        chance, certain = f"it could be{p}", False
        rest = f", but that could be chance{p}"
    else:
        than_plain = f"faster than plain decoding (p = {plain.p_holm:.2g})" if plain else ""
        than_others, certain = _over_others(gaps, others)
        chance = "; ".join(filter(None, (than_plain, than_others)))
        rest = f": {chance}" if certain or plain else f", but {than_others}"
        if certain and plain:
            lead = f"is the fastest with {value}x" if others else f"has {value}x"
    sentence = f"{CONDITION}, {name} {lead}{rest}."
    return Finding(
        name, size, f"{chance[:1].upper()}{chance[1:]}", sentence, None if certain else enough
    )


def conclusion_of(summary: Summary) -> list[str]:
    """Returns in sentences what a reader of one run has to know, and what it found."""
    found = finding_of(summary)
    sentences = [*history(summary.run), unreliable({"": summary.rows})]
    sentences += [found.sentence if found else "", tasks_line(summary.task_pairs)]
    return [*filter(None, sentences)]


def history(run: Run) -> list[str]:
    """Returns sentences on drafters that failed, were measured apart, or know prompts."""
    failed = [f"No figures of {name}, which failed at {why}." for name, why in run.failed.items()]
    apart = dict.fromkeys(name for name in run.facts.get("apart", ()) if name not in run.failed)
    known = [
        f"{name} was trained on {len(ids)} of the prompts: its figures are not of new texts (!)."
        for name, ids in run.facts.get("trained_on", {}).items()
    ]
    return [*failed, *known, *(f"{name} was timed later than the others." for name in apart)]


def unreliable(runs: Mapping[str, Sequence[Row]]) -> str:
    """Returns that times are unreliable, and why; empty if they are not.

    runs: the rows of each run, by its label, which is empty if there is only one.
    """
    reasons: dict[str, list[str]] = {}
    for label, rows in runs.items():
        timed = [row for row in rows if drafted(row) and row.rates["speedup"] is not None]
        for reason in dict.fromkeys(reason for row in timed for reason in row.doubts):
            names = [row.drafter for row in timed if reason in row.doubts]
            whose = "" if len(names) == len(timed) else _some(names)
            reasons.setdefault(reason, []).append(" in ".join(filter(None, (whose, label))))
    said = [": ".join(filter(None, (_some(whose), why))) for why, whose in reasons.items()]
    if not said:
        return ""
    return f"Timings are unreliable ({_some(said, '; ')}); tokens per call are not affected."


def tasks_line(task_pairs: Sequence[Pair]) -> str:
    """Returns on which tasks tests show that others are faster than the first; may be empty."""
    faster = [pair for pair in task_pairs if pair.significant and pair.difference.value > 0]
    named = [f"{pair.one} on {pair.task} (p = {pair.p_holm:.2g})" for pair in faster]
    return f"Faster than it by task: {_some(named)}." if named else ""


def _gaps(pairs: Sequence[Pair], rate: str, one: str) -> dict[str, Pair]:
    """Returns the differences of a drafter from those that it was compared with, by their names."""
    gaps = {pair.other: pair for pair in pairs if pair.rate == rate and pair.one == one}
    return gaps | {
        pair.one: pair.opposite for pair in pairs if (pair.rate, pair.other) == (rate, one)
    }


def _over_others(gaps: Mapping[str, Pair], others: Sequence[Row]) -> tuple[str, bool]:
    """Returns what is sure of the lead over the others, and whether all of it is."""
    tested = [gaps[row.drafter] for row in others if row.drafter in gaps]
    unsure = [pair for pair in tested if not pair.significant]
    if len(tested) < len(others):
        untested = [row.drafter for row in others if row.drafter not in gaps]
        return f"its lead over {_some(untested)} is not tested", False
    if not others:
        return "", True
    all_of_them = f"each of the other {len(others)}" if others[1:] else others[0].drafter
    if not unsure:
        p = f"{max(pair.p_holm for pair in tested):.2g}{' or less' * bool(others[1:])}"
        return f"ahead of {all_of_them} (p = {p})", True
    whom = f"{len(unsure)} of the other {len(others)}" if unsure[1:] else unsure[0].other
    p = "" if unsure[1:] else f" (p = {unsure[0].p_holm:.2g})"
    return f"its lead over {all_of_them if unsure == tested else whom} could be chance{p}", False


def _of_reference(gaps: Mapping[str, Pair], plain: Pair | None) -> str:
    """Returns what tests say of one drafter beside plain decoding and the others."""
    parts: dict[str, list[str]] = {}
    for pair in ([plain] if plain is not None else []) + [*gaps.values()]:
        is_ahead = pair.difference.value > 0
        how = ("ahead of" if is_ahead else "behind") if pair.significant else "not told apart from"
        parts.setdefault(how, []).append(f"{pair.other} (p = {pair.p_holm:.2g})")
    said = [f"{how} {_some(names)}" for how, names in parts.items()]
    return "; ".join(said) or "nothing is tested"


def _ends(plain: Pair | None) -> str:
    """Returns the speedups that the test against plain decoding does not reject."""
    if plain is None or plain.difference.low is None or plain.difference.high is None:
        return ""
    return f" ({1 + plain.difference.low:.2f} to {1 + plain.difference.high:.2f})"


def _some(names: Sequence[str], mark: str = ", ") -> str:
    named = [name for name in names if name]
    more = [f"{len(named) - NAMED} more"] if len(named) > NAMED else []
    return mark.join([*named[:NAMED], *more])
