"""What a server promises beside its distribution: seeds repeat, texts end where they have to."""

from collections.abc import Collection
from dataclasses import replace
from typing import final

from outrider.contract.sampling import Sampling
from outrider.extras.audit.client import Choice, Client, Request
from outrider.extras.audit.expected import BROKEN

WARM = Sampling(temperature=1.0)

MOST = 5
"""The most requests that trying all of it once sends."""

ALWAYS = 3
"""From how many times on a text that never comes again beside others is no rounding."""


@final
class Seeds:
    """Whether requests with a seed have the same text again, alone and beside another request.

    One that has not may be rounding. Two are a fault, if they are most of those tried; beside
    others, where rounding differs, if they are all.
    """

    def __init__(self) -> None:
        self._tried = self._changed = self._changed_beside = 0

    def fault(self, client: Client, request: Request, text: str) -> str | None:
        """Returns what is wrong by now.

        text: what the request was answered by.
        """
        again = client.ask([request])[0][0].text
        other = replace(request, sampling=Sampling(), seed=None)
        beside = client.ask([other, request])[1][0].text
        self._tried += 1
        self._changed += again != text
        self._changed_beside += beside not in (again, text)
        if again != text and self._changed > max(1, self._tried / 2):
            return f"seed {request.seed} gave {text!r}, then {again!r}"
        if self._changed_beside == self._tried >= ALWAYS:
            return f"seed {request.seed} gave {text!r}, and beside a greedy request {beside!r}"
        return None


def stop_fault(client: Client, request: Request, text: str, *, repeats: bool) -> str | None:
    """Returns what is wrong if a text goes on after its stop string, or ends without it.

    text: what the request was answered by; the stop string is from its middle.
    repeats: whether the request has that text again, up to the stop string.
    """
    stop = text[len(text) // 2 : len(text) // 2 + 1]
    before = text[: text.index(stop)].rstrip()
    if not stop.strip() or BROKEN in before + stop:
        return None
    written = client.ask([replace(request, stop=(stop,))])[0][0].text.removesuffix(stop)
    if stop in written:
        return f"stop {stop!r} is inside {written!r}"
    is_cut = len(written) < len(before) and before.startswith(written)
    if repeats and written and is_cut:
        return f"the text ended before its stop {stop!r}: {written!r} of {before!r}"
    return None


def end_fault(request: Request, choice: Choice, eos: Collection[int]) -> str | None:
    """Returns what is wrong if a text goes on after its last token.

    eos: the tokens that end a text, as far as they are known.
    """
    if len(choice.tokens) > request.max_tokens:
        return f"{len(choice.tokens)} tokens came for max_tokens={request.max_tokens}"
    ends = [place for place, token in enumerate(choice.tokens[:-1]) if token in eos]
    return f"a text goes on after token {ends[0]}, which ends it" if ends else None
