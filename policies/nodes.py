"""Policies that judge a draft node by node."""

from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, final

from outrider.contract.draft import ROOT, Draft
from outrider.contract.policy import Policy
from outrider.contract.round import Round


@final
class NodeValues:
    """A policy's value for each node of the current draft, computed once for each node.

    value_of: maps a draft and a node to the node's value.
    values: those of the latest draft.
    """

    def __init__(self, value_of: Callable[[Draft, int], Any]) -> None:
        self._value_of = value_of
        self._draft = Draft()
        self.values: list[Any] = []

    def of(self, draft: Draft) -> list[Any]:
        earlier, count = self._draft, len(self._draft)
        pairs = zip(draft.logits, earlier.logits, strict=False)
        texts = (draft.tokens[:count], draft.parents[:count])
        continues = texts == (earlier.tokens, earlier.parents) and all(a is b for a, b in pairs)
        if not continues:
            self.values = []
        self.values += [self._value_of(draft, node) for node in range(len(self.values), len(draft))]
        self._draft = draft
        return self.values


class NodePolicy(Policy):
    """Drafts to the full depth while some leaf and all nodes above it are good.

    In a chain, every node has to be good. In a tree, one good branch is enough to continue, since a
    draft can only stop as a whole.

    value_of: maps a draft and a node to what the node is judged by.
    """

    def __init__(self, value_of: Callable[[Draft, int], Any]) -> None:
        self._nodes = NodeValues(value_of)

    @abstractmethod
    def is_good(self, value: Any) -> bool:
        """Returns whether a node is good, by its value."""

    def depth(self, gamma: int) -> int:
        return gamma

    def more(self, draft: Draft) -> bool:
        alive: list[bool] = []
        for value, parent in zip(self._nodes.of(draft), draft.parents, strict=True):
            alive.append((parent == ROOT or alive[parent]) and self.is_good(value))
        return any(alive[leaf] for leaf in {*range(len(draft))} - {*draft.parents})


def tested_nodes(round: Round) -> Iterator[tuple[int, bool]]:
    """Yields each node of a draft that was tested, and whether it was accepted.

    Siblings are tested in the order in which they were written, up to the one that is accepted.
    """
    above = ROOT
    for accepted in round.path:
        for node in range(above + 1, accepted):
            if round.parents[node] == above:
                yield node, False
        yield accepted, True
        above = accepted
    if round.tested > round.accepted:
        for node in range(above + 1, len(round.draft)):
            if round.parents[node] == above:
                yield node, False
