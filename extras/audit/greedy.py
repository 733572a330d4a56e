"""Greedy texts: where they differ from others, and whether rounding can be why."""

from typing import final

from outrider.extras.audit.client import Choice, parting
from outrider.extras.audit.expected import Expected
from outrider.extras.audit.plan import Asked
from outrider.extras.audit.rounding import Rounding, closed_by_rounding, gaps, step_of


@final
class Greedy:
    """Judges greedy texts, and counts their `ties`; `unjudged` says why some could not be judged.

    least: the gap that two tokens may have at a tie, whatever is measured of rounding: between the
        engine alone and in a batch, with drafts and without.
    """

    def __init__(self, least: float, expected: Expected | None) -> None:
        self._least, self._expected = least, expected
        self._rounding, self._alone = Rounding(), Choice("")
        self.ties: int = 0
        self.unjudged: dict[str, str] = {}

    @property
    def tie(self) -> float:
        """Returns the gap of two logits that rounding may close, by the setting and as measured."""
        sd = 0.0 if self._expected is None else self._expected.sd
        return max(self._least, closed_by_rounding(max(sd, self._rounding.largest)))

    def read(self, asked: Asked, choice: Choice) -> str | None:
        """Returns what is wrong with a text beside the target's likeliest tokens."""
        if asked.alone:
            self._alone = choice
        else:
            self._measure(self._alone, choice)
        found = None if self._expected is None else self._expected.greedy(asked.request, choice)
        if found is None or self._is_tie(found[1]):
            return None
        return f"token {found[0]} of a greedy text is {found[1]:.2f} below the likeliest"

    def compare(self, name: str, mine: Choice, theirs: Choice) -> str | None:
        """Returns what is wrong with a text beside that of the engine without drafts."""
        self._measure(mine, theirs)
        if mine.text == theirs.text:
            return None
        place, gap, step = first_gap(mine, theirs)
        if gap is None:
            self.unjudged[name] = "greedy texts differ, and by how much is not listed"
        if gap is None or self._is_tie(gap - step):
            return None
        one, two = (it.tokens[place : place + 1] or ("the end",) for it in (mine, theirs))
        return f"token {place} is {one[0]!r}, not {two[0]!r}: {gap:.2f} likelier"

    def _measure(self, one: Choice, two: Choice) -> None:
        place, *_ = first_gap(one, two)
        self._rounding.see(gaps(one.likeliest[: place + 1], two.likeliest))

    def _is_tie(self, gap: float) -> bool:
        self.ties += gap <= self.tie
        return gap <= self.tie


def first_gap(one: Choice, two: Choice) -> tuple[int, float | None, float]:
    """Returns the first place at which two texts differ, or the end, and by how much they do.

    That is by how much the second text's token is likelier there, or, where either has ended, the
    likeliest than the next; None if too little is listed. The last number is the step in which the
    logits stand there, which a rounding of each may add: an eighth near 20 in bfloat16.
    """
    place, shorter = parting(one.tokens, two.tokens), min(len(one.tokens), len(two.tokens))
    place = shorter if place is None else place
    has_both = place < shorter
    by = two if has_both or len(two.tokens) > shorter else one
    listed = by.likeliest[place] if place < len(by.likeliest) else {}
    if len(listed) < 2:
        return place, None, 0.0
    lowest, *_ = ordered = sorted(listed.values())
    if not has_both:
        return place, ordered[-1] - ordered[-2], step_of(ordered)
    # Of a token that is not listed no more is known than that it is less likely.
    gap = listed.get(two.tokens[place], lowest) - listed.get(one.tokens[place], lowest)
    return place, gap, step_of(ordered)
