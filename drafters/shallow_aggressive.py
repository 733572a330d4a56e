"""Copies the source of an edited text, and realigns after each edit."""

from collections.abc import Sequence
from typing import final

from outrider.contract.context import Context
from outrider.contract.drafter import Drafter
from outrider.contract.pen import Pen
from outrider.targets.passes.cached_model import SOURCE


@final
class ShallowAggressive(Drafter):
    """Shallow aggressive decoding (2106.04970, section 3.1), for texts that edit their source.

    The draft is the source itself. Once the text has left it, there is no draft until the end of
    the text occurs exactly once in the source; copying resumes after that occurrence.

    It needs a target with an encoder: without one, a drafter can't tell where the prompt ends.
    """

    needs: frozenset[str] = frozenset({SOURCE})

    def propose(self, context: Context, pen: Pen) -> None:
        assert context.source is not None
        source = context.source[:]
        # The text begins with the decoder's start token, which is not part of the copy.
        position = resumed(source, context.tokens[1:])
        while position is not None and position < len(source) and pen.open:
            pen.write(source[position])
            position += 1


def resumed(source: Sequence[int], text: Sequence[int]) -> int | None:
    """Returns the position in the source at which copying continues, None if it is not known.

    A text that is a prefix of the source continues with it. Otherwise, the shortest suffix of the
    text that occurs at most once in the source decides; a longer one would give the same.
    """
    if list(text) == list(source[: len(text)]):
        return len(text)
    ends = list(range(1, len(source) + 1))
    for n in range(1, len(text) + 1):
        ends = [end for end in ends if end >= n and source[end - n] == text[-n]]
        if len(ends) <= 1:
            return ends[0] if ends else None
    return None
