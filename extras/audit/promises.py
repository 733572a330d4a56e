"""What a server promises beside its distribution: seeds repeat, texts end where they have to."""

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import final

from outrider.contract.sampling import Sampling
from outrider.extras.audit.client import Choice, Request, parting
from outrider.extras.audit.expected import BROKEN

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
