"""Where drafts collapse: acceptance by task, script, position, context, and thinking or answer."""

import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from outrider.lab.measuring.measurement import Decoding, Measurement
from outrider.lab.statistics.intervals import Interval
from outrider.lab.statistics.positions import by_context, by_place, by_position

THINKING, ANSWER = "<think>", "</think>"
"""What texts have before a chain of thought, and after it."""


@final
@dataclass(frozen=True, slots=True)
class Group:
    """A kind of rounds, and the share of the tested tokens that was accepted in them."""

    kind: str
    name: str
    accepted: Interval
    tested: int


def groups_of(prompts: Sequence[Sequence[Measurement]]) -> list[Group]:
    """Returns the acceptance of a drafter in each group of the kinds that have several.

    prompts: its measurements, by prompt.
    """
    places = {
        "task": by_place(prompts, lambda number, text, _: prompts[number - 1][0].category),
        "script": by_place(prompts, lambda _, text, written: script_of(_said(text))),
        "part": by_place(prompts, lambda _, text, written: _part(text, written)),
    }
    found = [
        Group(kind, name, accepted, tested)
        for kind, by_name in places.items()
        for name, (accepted, tested) in by_name.items()
    ]
    for kind, stretches in (("position", by_position(prompts)), ("context", by_context(prompts))):
        found += [
            Group(kind, f"tokens {it.first} to {it.last}", it.alpha_tested, it.tested)
            for it in stretches
        ]
    kinds = Counter(group.kind for group in found)
    return [group for group in found if kinds[group.kind] > 1]


def worst(groups: Sequence[Group]) -> Group | None:
    """Returns the group with the lowest acceptance, of those with an interval."""
    known = [group for group in groups if group.accepted.low is not None]
    return min(known, key=lambda group: group.accepted.value, default=None)


def script_of(text: str) -> str:
    """Returns the script of most letters, such as LATIN or CJK; empty without any.

    >>> script_of("Привет, world, как дела?")
    'CYRILLIC'
    """
    scripts = Counter(unicodedata.name(it, "").partition(" ")[0] for it in text if it.isalpha())
    return next((name for name, _ in scripts.most_common(1)), "")


def _said(text: Decoding, most: int | None = None) -> str:
    return "".join([piece for step in text.steps for piece in step.pieces][:most])


def _part(text: Decoding, written: int) -> str | None:
    """Returns whether a round belongs to the thinking or to the answer; None without marks."""
    if THINKING not in _said(text) and ANSWER not in _said(text):
        return None
    return "answer" if ANSWER in _said(text, written) else "thinking"
