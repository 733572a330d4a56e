"""Texts in turns: a target reads something, such as a question, writes on, and reads again."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import final

from outrider.contract.chance import Chance
from outrider.contract.sampling import Sampling

Write = Callable[[list[list[int]], Sampling, list[Chance], int], list[list[int]]]
"""Continues prompts, as `BatchTarget.write` does."""

TOGETHER = 64
"""How many texts a target that only overrides `write` is given at a time."""


@final
@dataclass(frozen=True, slots=True)
class Turn:
    """What a target reads of a text, and how it goes on.

    ids: what it reads. They replace the id that ended the turn before, if it was one of `eos`.
    sampling, chance, max_new_tokens: of what it writes then, as in `BatchTarget.write`.
    """

    ids: Sequence[int]
    sampling: Sampling
    chance: Chance
    max_new_tokens: int


def without_end(text: list[int], turn: Turn, eos: Collection[int]) -> list[int]:
    """Returns a text without the end of text that a turn's ids replace."""
    return text[:-1] if turn.ids and text and text[-1] in eos else text


def write_turn_by_turn(
    write: Write, texts: Iterable[Sequence[Turn]], eos: Collection[int]
) -> Iterator[list[list[int]]]:
    """Yields what is written in each turn of a text, after writing the turns of a few texts."""
    remaining = iter(texts)
    while together := list(islice(remaining, TOGETHER)):
        yield from _write_together(write, together, eos)


def _write_together(
    write: Write, texts: Sequence[Sequence[Turn]], eos: Collection[int]
) -> list[list[list[int]]]:
    written: list[list[list[int]]] = [[] for _ in texts]
    heads: list[list[int]] = [[] for _ in texts]
    for number in range(max(map(len, texts), default=0)):
        alike = defaultdict[tuple[Sampling, int], list[int]](list)
        for index, turns in enumerate(texts):
            if number < len(turns):
                turn = turns[number]
                alike[turn.sampling, turn.max_new_tokens].append(index)
                heads[index] = [*without_end(heads[index], turn, eos), *turn.ids]
        for (sampling, limit), indices in alike.items():
            chances = [texts[index][number].chance for index in indices]
            new = write([heads[index] for index in indices], sampling, chances, limit)
            for index, text in zip(indices, new, strict=True):
                written[index].append(text)
                heads[index] += text
    return written
