"""Which texts go on from others that are held already."""

from collections.abc import Mapping, Sequence

from outrider.contract.context import Tokens


def continued(texts: Sequence[Tokens], held: Mapping[int, Tokens]) -> list[int | None]:
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
