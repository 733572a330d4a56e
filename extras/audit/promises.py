"""What single texts show: whether seeds repeat, where they end, and where greedy ones differ."""

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import final

from outrider.contract.sampling import Sampling
from outrider.extras.audit.client import Asked, Choice, Request, parting
from outrider.extras.audit.expected import BROKEN, Expected
from outrider.extras.audit.rounding import Rounding, closed_by_rounding, gaps, step_of

Ask = Callable[[Sequence[Request]], list[list[Choice]]]
"""Asks the engine, as `Client.ask` does."""

MOST = 6
"""The most requests that trying all of it once sends."""

EQUAL = 1e-6
"""By how much listed log-probabilities of one pass differ at most, as they are written."""

OFTEN = 0.5
"""How often at least a text with a seed begins with the same token again, whatever is rounded."""


@final
class Seeds:
    """Whether requests with a seed have the same text again, alone and beside another request.

    One that has another token, by the same log-probabilities to the last digit, is no rounding.
    Where they differ, or are not listed, first tokens that mostly differ are the evidence.

    needed: the logarithm of the evidence that is needed.
    """

    def __init__(self, needed: float) -> None:
        self._needed = needed
        self._changed, self._growths = [0, 0], [0.0, 0.0]

    def fault(self, ask: Ask, request: Request, text: Choice) -> str | None:
        """Returns what is wrong by now.

        text: what the request was answered by.
        """
        other = replace(request, sampling=Sampling(), seed=None)
        for index, words in enumerate(("then", "and beside a greedy request")):
            again = ask([other, request] if index else [request])[-1][0]
            place = parting(text.parts, again.parts)
            self._growths[index] += math.log(OFTEN if place != 0 else 2 - OFTEN)
            if place is None:
                continue
            self._changed[index] += _have_one_distribution(text, again, place)
            if self._changed[index] > 1 or self._growths[index] > self._needed:
                return f"seed {request.seed} gave {text.text!r}, {words} {again.text!r}"
        return None


def _have_one_distribution(text: Choice, again: Choice, place: int) -> bool:
    """Returns whether the same log-probabilities are listed up to the first token that differs."""
    if min(len(choice.likeliest) for choice in (text, again)) <= place:
        return False
    rows = zip(text.likeliest[: place + 1], again.likeliest, strict=False)
    apart = [[abs(one[it] - two[it]) for it in one.keys() & two.keys()] for one, two in rows]
    return all(row and max(row) <= EQUAL for row in apart)


def stop_fault(ask: Ask, request: Request, text: Choice) -> str | None:
    """Returns what is wrong if a text goes on after its stop string, or ends without it.

    Both have to come again, and the text without the stop string, too.

    text: what the request was answered by; the stop string is from its middle.
    """
    stop = text.text[len(text.text) // 2 : len(text.text) // 2 + 1]
    before = text.text[: text.text.index(stop)].rstrip()
    if not stop.strip() or BROKEN in before + stop:
        return None
    stopped = replace(request, stop=(stop,))
    written = ask([stopped])[0][0].text.removesuffix(stop)
    if stop in written:
        return f"stop {stop!r} is inside {written!r}"
    if not written or len(written) >= len(before) or not before.startswith(written):
        return None
    again = [ask([each])[0][0].text.removesuffix(stop) for each in (stopped, request)]
    if again != [written, text.text.removesuffix(stop)]:
        return None
    return f"the text ended before its stop {stop!r}: {written!r} of {before!r}"


def end_fault(request: Request, choice: Choice, eos: Collection[int]) -> str | None:
    """Returns what is wrong if a text goes on after its last token.

    eos: the tokens that end a text, as far as they are known.
    """
    if len(choice.tokens) > request.max_tokens:
        return f"{len(choice.tokens)} tokens came for max_tokens={request.max_tokens}"
    ends = [place for place, token in enumerate(choice.tokens[:-1]) if token in eos]
    return f"a text goes on after token {ends[0]}, which ends it" if ends else None


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
            self._parted(self._alone, choice)
        found = None if self._expected is None else self._expected.greedy(asked.request, choice)
        if found is None or self._is_tie(found[1]):
            return None
        return f"token {found[0]} of a greedy text is {found[1]:.2f} below the likeliest"

    def compare(self, name: str, mine: Choice, theirs: Choice) -> str | None:
        """Returns what is wrong with a text beside that of the engine without drafts."""
        place, gap, step = self._parted(mine, theirs)
        if mine.text == theirs.text:
            return None
        if gap is None:
            self.unjudged[name] = "greedy texts differ, and by how much is not listed"
        if gap is None or self._is_tie(gap - step):
            return None
        one, two = (it.tokens[place : place + 1] or ("the end",) for it in (mine, theirs))
        return f"token {place} is {one[0]!r}, not {two[0]!r}: {gap:.2f} likelier"

    def _parted(self, one: Choice, two: Choice) -> tuple[int, float | None, float]:
        """Measures rounding up to the first gap, which is returned."""
        found = first_gap(one, two)
        self._rounding.see(gaps(one.likeliest[: found[0] + 1], two.likeliest))
        return found

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
