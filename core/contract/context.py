"""Context: everything that a drafter may look at, as a read-only view."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, final, overload

if TYPE_CHECKING:
    from torch import Tensor

Features = Mapping[str, "Tensor"]
"""Features of the target by their names, as in `Drafter.needs`, each with a row for a token."""


@final
class Tokens(Sequence[int]):
    """A read-only view of the first `length` ids of a list that only grows.

    Creating a view takes constant time. A slice of it is a new list.

    >>> text = Tokens([5, 6, 7, 8])
    >>> text[-1], text[1:3], len(text)
    (8, [6, 7], 4)
    """

    __slots__ = ("_ids", "_length")

    def __init__(self, ids: list[int], length: int | None = None) -> None:
        self._ids = ids
        self._length = len(ids) if length is None else length

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> list[int]: ...
    def __getitem__(self, index: int | slice) -> int | list[int]:
        if isinstance(index, slice):
            start, stop, step = index.indices(self._length)
            if step > 0:
                return self._ids[start:stop:step]
            return [self._ids[position] for position in range(start, stop, step)]
        if not -self._length <= index < self._length:
            raise IndexError(f"position {index} of {self._length} tokens")
        return self._ids[index if index >= 0 else self._length + index]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Tokens):
            return len(self) == len(other) == self.shared(other)
        return isinstance(other, Sequence) and self[:] == list(other)

    __hash__: ClassVar[None] = None  # type: ignore[assignment]  # equal to lists, which have no hash either

    def __repr__(self) -> str:
        return f"Tokens({self[:]})"

    def shared(self, other: Sequence[int]) -> int:
        """Returns the length of the longest common prefix, in constant time for views of one list.

        Drafters key their caches by it: whatever lies past it belongs to another text.
        """
        other = other if isinstance(other, Tokens) else Tokens(list(other))
        low, high = 0, min(len(self), len(other))
        if self._ids is other._ids or self._ids[:high] == other._ids[:high]:
            return high
        while high - low > 1:  # ids before `low` agree; ids before `high` do not
            middle = (low + high) // 2
            if self._ids[low:middle] == other._ids[low:middle]:
                low = middle
            else:
                high = middle
        return low


@final
@dataclass(frozen=True, slots=True)
class Context:
    """Everything that a draft may depend on.

    tokens: the text so far, prompt included.
    source: the input of the target's encoder, None if it has no encoder. With an encoder the
        prompt is here, and the text begins with the decoder's start token.
    features: by name, the features that the drafter listed in `needs`, such as the hidden states
        of the text.
    prompt_length: how many of the tokens come before the answer: the prompt, or the decoder's
        start token; 0 where a caller of the drafter does not say.
    """

    tokens: Tokens
    source: Tokens | None = None
    features: dict[str, "Tensor"] = field(default_factory=dict)
    prompt_length: int = 0


def beginnings(texts: Sequence[Tokens], held: Mapping[int, Tokens]) -> list[int | None]:
    """Returns for each text the key of one that it begins with, each at most once; None if none.

    held: by key, texts as they were; an empty one is nobody's beginning.
    """
    left, found = dict(held), list[int | None]()
    for text in texts:
        keys = (key for key, part in left.items() if 0 < len(part) == part.shared(text))
        found.append(key := next(keys, None))
        if key is not None:
            del left[key]
    return found
