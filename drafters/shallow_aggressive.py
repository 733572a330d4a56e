"""ShallowAggressive: copies the source on from where the text is, and finds its place again by suffix."""

from collections.abc import Sequence
from typing import final

from outrider.contract.context import Context
from outrider.contract.drafter import Drafter
from outrider.contract.pen import Pen
from outrider.plugins.hookspecs import Register, hookimpl
from outrider.runtime.cached_model import SOURCE


@final
class ShallowAggressive(Drafter):
    """Shallow aggressive decoding (2106.04970, section 3.1), for texts that edit their source.

    The draft is the source itself. Where the text left it, there is no draft until the end of the
    text stands at a single place of the source, behind which copying resumes.

    It needs a target with an encoder: without one, no drafter knows where the prompt ends.
    """

    needs = frozenset({SOURCE})

    def propose(self, context: Context, pen: Pen) -> None:
        assert context.source is not None
        source = context.source[:]
        # The decoder's start token is no part of what is copied.
        place = resumed(source, context.tokens[1:])
        while place is not None and place < len(source) and pen.open:
            pen.write(source[place])
            place += 1


def resumed(source: Sequence[int], text: Sequence[int]) -> int | None:
    """Returns the place of the source at which copying goes on, None where it is not known.

    A text that is so far the source's beginning goes on with it. Otherwise the shortest end of the
    text that stands at no more than one place decides; a longer one would say the same.
    """
    if list(text) == list(source[: len(text)]):
        return len(text)
    places = list(range(1, len(source) + 1))
    for n in range(1, len(text) + 1):
        places = [at for at in places if at >= n and source[at - n] == text[-n]]
        if len(places) <= 1:
            return places[0] if places else None
    return None


@hookimpl
def register_drafters(register: Register) -> None:
    register("shallow_aggressive", ShallowAggressive)
