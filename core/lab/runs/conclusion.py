"""What a comparison showed, in a few sentences, each claim with its test."""

from collections.abc import Iterable, Mapping, Sequence

from outrider.lab.runs.row import Row, ranked
from outrider.lab.runs.run import Run
from outrider.lab.runs.summary import Summary
from outrider.lab.statistics.intervals import FEWEST, Interval
from outrider.lab.statistics.pairs import Pair, drafter_in

NAMED = 3
"""The most drafters that a sentence names, each with its figure."""


def conclusion(
    rows: Sequence[Row],
    pairs: Sequence[Pair] = (),
    over_plain: Sequence[Pair] = (),
    task_pairs: Sequence[Pair] = (),
    reference: str | None = None,
) -> list[str]:
    """Returns which drafter is first in speed, or in alpha if nothing was timed, and what is sure.

    It is called the fastest only if tests show that it is faster than plain decoding and than each
    of the others. If times are doubtful, the first sentence says so. Empty if no drafter drafted,
    or if there is nothing to compare with.

    pairs: the differences between these drafters. over_plain: those of each from plain decoding.
    task_pairs: by task, those from the first. reference: the drafter that was compared with the
        others, if one was; then the sentences are about it.
    """
    if len(rows) < 2:
        return []
    timed = ranked(rows, "speedup")
    if not timed:
        return _in_alpha(rows, pairs)
    doubts = _doubts(timed)
    first, *others = [row for row in timed if not row.control] or timed
    plain = {pair.one: pair for pair in over_plain}
    if reference is not None:
        sentences = _of_reference(timed, pairs, plain, reference)
    else:
        sentences = _of_first(first, others, pairs, plain, [] if doubts else task_pairs)
    return [*doubts, *filter(None, sentences)]


def conclusion_of(summary: Summary) -> list[str]:
    """Returns which drafters failed or were measured apart, and the finding of one run."""
    found = conclusion(
        summary.rows, summary.pairs, summary.over_plain, summary.task_pairs, summary.reference
    )
    return [*history(summary.run), *found]


def history(run: Run) -> list[str]:
    """Returns sentences on drafters that failed, were measured apart, or know prompts."""
    failed = [f"No figures of {name}, which failed at {why}." for name, why in run.failed.items()]
    apart = dict.fromkeys(name for name in run.facts.get("apart", ()) if name not in run.failed)
    known = [
        f"{name} was trained on {len(ids)} of the prompts: its figures are not of new texts (!)."
        for name, ids in run.facts.get("trained_on", {}).items()
    ]
    return [*failed, *known, *(f"{name} was timed later than the others." for name in apart)]


def _doubts(timed: Sequence[Row]) -> list[str]:
    """Returns that there is no finding, and why, if a time is doubtful."""
    reasons: dict[str, list[str]] = {}
    for row in timed:
        for reason in row.doubts:
            reasons.setdefault(reason, []).append(row.drafter)
    if not reasons:
        return []
    causes = "; ".join(
        reason if len(names) == len(timed) > 1 else f"{reason} ({', '.join(names)})"
        for reason, names in reasons.items()
    )
    return [f"No finding, since times are doubtful: {causes}.", "As measured:"]


def _of_first(
    first: Row,
    others: Sequence[Row],
    pairs: Sequence[Pair],
    plain: Mapping[str, Pair],
    task_pairs: Sequence[Pair],
) -> list[str]:
    """Returns the sentences on the drafter with the largest speedup, some of which are empty.

    plain: by drafter, its difference from plain decoding.
    """
    name, speedup = first.drafter, _rate(first, "speedup")
    if speedup.value <= 1:
        subject = "No drafter is" if others else f"{name} is not"
        nearest = f"{name} comes nearest, with" if others else "it has"
        measured = f"{nearest} {_figure(speedup)}{_tokens(first)}"
        return [f"{subject} faster than plain decoding here: {measured}."]
    gaps = _gaps(pairs, "speedup", name, others)
    is_faster = name in plain and plain[name].significant
    unsure = [gap for gap in gaps if not gap.significant]
    leads_all = is_faster and len(gaps) == len(others) and not unsure
    if not others:
        verb = "is faster" if is_faster else "was measured"
    else:
        verb = "is the fastest" if leads_all else "ranks first"
    sentences = _about(first, f" {verb}", plain.get(name))
    if others and leads_all:
        sentences.append(f"It leads {_with_figures(gaps)}, by Holm over {gaps[0].family} pairs.")
    else:
        sentences.append(_unsure(unsure, len(gaps)))
        tested = {gap.other for gap in gaps}
        untested = [row.drafter for row in others if row.drafter not in tested]
        sentences += [f"Its lead over {other} is not tested." for other in untested[:1]]
    return [*sentences, _beside_target(first, others), _by_task([first, *others], task_pairs)]


def _of_reference(
    timed: Sequence[Row], pairs: Sequence[Pair], plain: Mapping[str, Pair], reference: str
) -> list[str]:
    """Returns the sentences on one drafter against the others, for each of its rules."""
    sentences = []
    for row in timed:
        if reference not in (row.drafter, drafter_in(row.drafter)):
            continue
        sentences += _about(row, "", plain.get(row.drafter))
        gaps = _gaps(pairs, "speedup", row.drafter, timed)
        parts = {
            "faster than": [gap for gap in gaps if gap.significant and gap.difference.value > 0],
            "slower than": [gap for gap in gaps if gap.significant and gap.difference.value < 0],
            "not told apart from": [gap for gap in gaps if not gap.significant],
        }
        found = [f"{what} {_with_figures(some)}" for what, some in parts.items() if some]
        if found:
            tests = f"By Holm over {gaps[0].family} comparison{'s' * (gaps[0].family > 1)}"
            sentences.append(f"{tests} it is {'; '.join(found)}.")
    return sentences


def _about(row: Row, verb: str, plain: Pair | None) -> list[str]:
    """Returns how fast a drafter is, whether its texts are other ones, and if it may be chance."""
    speed = f"{_figure(_rate(row, 'speedup'))} times as fast as plain decoding{_tokens(row)}."
    lossy = "" if row.lossless else "Its rule is lossy, so its texts are not the target's."
    return [f"{row.drafter}{verb}: {speed}", lossy, _chance(row, plain)]


def _in_alpha(rows: Sequence[Row], pairs: Sequence[Pair]) -> list[str]:
    """Returns the sentences on the drafter with the highest alpha."""
    variants = [row for row in ranked(rows, "alpha") if not row.control]
    if not variants:
        return []
    first, *rivals = variants
    alpha, gaps = _rate(first, "alpha"), _gaps(pairs, "alpha", first.drafter, rivals)
    unsure = [gap for gap in gaps if not gap.significant]
    if gaps and len(gaps) == len(rivals) and not unsure:
        lead = f"above {_with_figures(gaps)}, by Holm over {gaps[0].family} pairs"
        return [f"{first.drafter} has the highest alpha, {_figure(alpha)}: {lead}."]
    sentences = [f"{first.drafter} ranks first in alpha, {_figure(alpha)}."]
    return [*sentences, *([_unsure(unsure, len(gaps))] if gaps else [])]


def _gaps(pairs: Sequence[Pair], rate: str, one: str, others: Sequence[Row]) -> list[Pair]:
    """Returns the differences of a drafter from those of others that it was compared with."""
    gaps = {pair.other: pair for pair in pairs if pair.rate == rate and pair.one == one}
    gaps |= {pair.one: pair.opposite for pair in pairs if (pair.rate, pair.other) == (rate, one)}
    return [gaps[row.drafter] for row in others if row.drafter in gaps]


def _rate(row: Row, rate: str) -> Interval:
    """Returns a rate that a ranked row has."""
    interval = row.rates[rate]
    assert interval is not None, f"a row ranked by its {rate} has none"
    return interval


def _chance(row: Row, plain: Pair | None) -> str:
    """Returns that the speedup may be chance; empty if a test shows that it isn't."""
    if row.prompts < FEWEST:
        return (
            f"From {row.prompts} prompt{'s' * (row.prompts > 1)}, too few to say how sure this is."
        )
    if plain is None or plain.significant:
        return ""
    corrected = f" by Holm over {plain.family} drafters" if plain.family > 1 else ""
    return (
        f"This may be chance: p is {plain.p_holm:.2g}{corrected} that it is as fast as plain"
        " decoding. More prompts would tell."
    )


def _unsure(gaps: Sequence[Pair], tested: int) -> str:
    """Returns over which drafters the lead of the first may be chance."""
    if not gaps:
        return ""
    if len(gaps) == 1:
        (gap,) = gaps
        return (
            f"Its lead over {gap.other}, {_figure(gap.difference)}, may be chance: p is"
            f" {gap.p_holm:.2g} by Holm over {gap.family} pairs."
        )
    return (
        f"Its lead may be chance over {len(gaps)} of {tested}, by Holm over {gaps[0].family} pairs:"
        f" {_with_figures(gaps)}."
    )


def _with_figures(gaps: Sequence[Pair]) -> str:
    """Returns drafters, each with how far the first is from it, and the p-value."""
    nearest = sorted(gaps, key=lambda gap: abs(gap.difference.value))[:NAMED]
    named = []
    for gap in nearest:
        size = gap.difference if gap.difference.value >= 0 else gap.difference.opposite
        named.append(f"{gap.other} by {_figure(size)} (p {gap.p_holm:.2g})")
    more = [f"{len(gaps) - NAMED} more"] if len(gaps) > NAMED else []
    *most, last = [*named, *more]
    return f"{', '.join(most)} and {last}" if most else last


def _by_task(timed: Sequence[Row], task_pairs: Sequence[Pair]) -> str:
    """Returns on which tasks others are faster, as tests show, and who else ranks first on one.

    Empty if there are fewer than two tasks with prompts enough to tell.
    """
    tasks = list(dict.fromkeys(pair.task for pair in task_pairs))
    if len(tasks) < 2:
        return ""
    faster = [pair for pair in task_pairs if pair.significant and pair.difference.value > 0]
    leaders = {task: ranked(timed, "speedup", task)[0].drafter for task in tasks}
    first, shown = timed[0].drafter, {pair.task for pair in faster}
    rest = [(name, task) for task, name in leaders.items() if name != first and task not in shown]
    sentences = []
    if faster:
        named = _lists((pair.one, pair.task) for pair in faster)
        sentences.append(
            f"By task others are faster: {named} (Holm over {faster[0].family} tests)."
        )
    if rest:
        sentences.append(f"Also first by task, which may be chance: {_lists(rest)}.")
    return " ".join(sentences) or f"It ranks first on each of the {len(tasks)} tasks."


def _beside_target(first: Row, others: Sequence[Row]) -> str:
    """Returns which drafter is fastest of those that are not the target itself, if the first is."""
    best = next((row for row in others if not row.target_itself), None)
    if not first.target_itself or best is None:
        return ""
    figure = _figure(_rate(best, "speedup"))
    ranks = f"Of the others {best.drafter} ranks first, {figure}{_tokens(best)}."
    return f"{first.drafter} is the target itself, so that it is exact by construction. {ranks}"


def _lists(pairs: Iterable[tuple[str, str]]) -> str:
    """Returns drafters, each with its tasks."""
    by_drafter: dict[str, list[str]] = {}
    for name, task in pairs:
        by_drafter.setdefault(name, []).append(task)
    return "; ".join(f"{name} on {', '.join(tasks)}" for name, tasks in by_drafter.items())


def _tokens(row: Row) -> str:
    """Returns the tokens of a call as counted, and what they are without the cut at the end."""
    tokens, counted = row.rates["block_efficiency"], row.rates.get("mean_acceptance_length")
    if tokens is None:
        return ""
    if counted is None or f"{counted.value:.2f}" == f"{tokens.value:.2f}":
        return f" and {tokens.value:.2f} tokens per call"
    return f" and {counted.value:.2f} tokens per call ({tokens.value:.2f} if no text were cut)"


def _figure(figure: Interval) -> str:
    if figure.low is None or figure.high is None:
        return f"{figure.value:.2f}"
    return f"{figure.value:.2f} [{figure.low:.2f}, {figure.high:.2f}]"
