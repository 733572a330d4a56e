"""Drafters that a batch may run once for all of its texts, in place of once for each."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence

from outrider.base.pretrained import Model
from outrider.contract.context import Tokens
from outrider.contract.drafter import Drafter


class Together(Drafter):
    """A drafter of which one drafts for several texts."""

    @abstractmethod
    def open_together(self) -> Drafter | None:
        """Returns the drafter of several texts, as `open` does of one; None if there is none."""


class ModelChains(Drafter):
    """A drafter whose chains are what a language model goes on with.

    chain_model: the model, once the drafter is bound.
    """

    chain_model: Model

    @property
    @abstractmethod
    def chains_together(self) -> bool:
        """Returns whether it drafts chains, and the model reads texts of a batch as it does one."""

    @abstractmethod
    def reach(self, length: int) -> int | None:
        """Returns how many tokens it can draft after a text, None if there is no limit."""


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
