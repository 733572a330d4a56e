"""Where drafts collapse: acceptance by task, script, position, context, and thinking or answer."""

import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence

from outrider.lab.measuring.measurement import Decoding, Measurement
from outrider.lab.statistics.intervals import Interval
from outrider.lab.statistics.positions import by_context, by_place, by_position
from outrider.lab.tables.table import Column, Figure, Table, names_of

MARKS = ("<think>", "</think>")
"""What texts have before a chain of thought, and after it."""

Group = tuple[str, str, Interval, int]
"""Its kind, its name, the share of tested tokens that was accepted, and how many were tested."""


def groups_of(
    prompts: Sequence[Sequence[Measurement]], languages: Mapping[str, str]
) -> list[Group]:
    """Returns the acceptance of a drafter in each group, of the kinds that have several.

    prompts: its measurements, by prompt. languages: of those that name one; else the script counts.
    """
    named = [languages.get(own[0].prompt) for own in prompts]
    places = {
        "task": by_place(prompts, lambda number, *_: prompts[number - 1][0].category),
        "language": by_place(prompts, lambda n, text, _: named[n - 1] or script_of(_said(text))),
        "part": by_place(prompts, lambda _, text, written: _part(text, written)),
    }
    found = [(kind, name, *it) for kind, names in places.items() for name, it in names.items()]
    for kind, stretches in (("position", by_position(prompts)), ("context", by_context(prompts))):
        found += [
            (kind, f"tokens {it.first} to {it.last}", it.alpha_tested, it.tested)
            for it in stretches
        ]
    kinds = Counter(kind for kind, *_ in found)
    return [group for group in found if kinds[group[0]] > 1]


def groups_table(drafter: str, groups: Sequence[Group]) -> Table:
    """Returns the groups, the worst of those with an interval below."""
    known = [group for group in groups if group[2].low is not None]
    kind, name, *_ = min(known, key=lambda it: it[2].value, default=("", ""))
    notes = (f"worst: {kind}, {name}",) * bool(known)
    columns = *names_of("kind", "group"), Column("accepted", beside=True), Column("tested")
    rows = tuple((kind, name, Figure(it), str(tested)) for kind, name, it, tested in groups)
    return Table(f"where {drafter} is accepted", columns, rows, notes)


def script_of(text: str) -> str:
    """Returns the script of most letters; empty without any.

    >>> script_of("Привет, world, как дела?")
    'CYRILLIC'
    """
    scripts = Counter(unicodedata.name(it, "").partition(" ")[0] for it in text if it.isalpha())
    return next((name for name, _ in scripts.most_common(1)), "")


def _said(text: Decoding, most: int | None = None) -> str:
    return "".join([piece for step in text.steps for piece in step.pieces][:most])


def _part(text: Decoding, written: int) -> str | None:
    """Returns whether a round belongs to the thinking or to the answer; None without marks."""
    if not any(mark in _said(text) for mark in MARKS):
        return None
    return "answer" if MARKS[1] in _said(text, written) else "thinking"
