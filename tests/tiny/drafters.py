"""Drafters that know the text: partly right and partly wrong, as a chain or as a tree."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, final

import torch
from torch import Tensor

from outrider import Context, Drafter, Pen, Target
from outrider.contract.draft import ROOT
from outrider.contract.round import Round
from outrider.testing.tiny_targets import draft_after


@final
class ScriptedChain(Drafter):
    """Writes the next tokens of a text: right up to some position, and wrong from there on."""

    def __init__(self, text: Sequence[int]) -> None:
        self._text = list(text)

    def propose(self, context: Context, pen: Pen) -> None:
        position = len(context.tokens)
        right = position * 7 % 5  # 0 to 4 of them
        while pen.open and position < len(self._text):
            token = self._text[position]
            pen.write(token if right > 0 else (token + 1) % pen.vocab_size)
            position, right = position + 1, right - 1


@final
class ScriptedTree(Drafter):
    """Writes two siblings at each depth below the right path: the right token, first or second.

    Every fifth draft has no right token at all, and wrong nodes have children too, so that what is
    kept of the cache is seldom its beginning.
    """

    kind = "deterministic"

    def __init__(self, text: Sequence[int]) -> None:
        self._text = list(text)

    def propose(self, context: Context, pen: Pen) -> None:
        position, node, size = len(context.tokens), ROOT, pen.vocab_size
        first, blind = position % 2 == 0, position % 5 == 4
        for depth in range(min(pen.gamma, 3)):
            if position + depth >= len(self._text) or pen.room < 4:
                return
            right = self._text[position + depth]
            tokens = [right, (right + 1) % size] if first else [(right + 1) % size, right]
            if blind:
                tokens = [(right + 1) % size, (right + 2) % size]
            written = []
            for token in tokens:
                pen.write(token, after=node)
                written.append(pen.last)
            wrong = written[1] if first else written[0]
            pen.write((right + 3) % size, after=wrong) if depth + 1 < pen.gamma else None
            node = written[0] if first else written[1]


class Watches(Drafter):
    """Drafts nothing, and observes."""

    def propose(self, context: Context, pen: Pen) -> None: ...

    def observe(self, *_: Any) -> None: ...


class InTurn(Drafter):
    """Several drafters of one kind, each for one text: the first opens the first, and so on."""

    def __init__(self, drafters: Sequence[Drafter]) -> None:
        self._drafters = drafters
        self._left = iter(drafters)
        self.kind = drafters[0].kind
        self.needs = drafters[0].needs

    def bind(self, target: Target) -> None:
        for drafter in self._drafters:
            drafter.bind(target)

    def open(self) -> Any:
        return next(self._left).open()

    def propose(self, context: Context, pen: Pen) -> None:
        raise NotImplementedError


def bound(drafter: Any, target: Target) -> Any:
    """Returns a drafter, which is bound to a target."""
    drafter.bind(target)
    return drafter


def assert_paths_are_followed(
    drafter: Drafter,
    target: Target,
    exact: Callable[[list[int], list[int]], Tensor],
    text: list[int],
    top: int = 2,
) -> None:
    """Holds the distributions of drafts to those after each path, as a text grows and is cut.

    exact: gives the distribution after a text and a path. A node without one is one of the
        `top` likeliest; a later sibling's is what the earlier ones leave, of the kind `distinct`.
    """
    last = text[-1]
    for seed in range(6):
        draft = draft_after(drafter, target, text, 3, seed=seed)
        assert len(draft) > 1
        for parent in set(draft.parents):
            right = exact(text, [draft.tokens[step] for step in draft.path(parent)])
            for number, node in enumerate(draft.children(parent)):
                token, probs = draft.tokens[node], draft.probs[node]
                assert right[token] > 0
                if probs is None:
                    assert token in right.argsort(descending=True)[:top]
                elif drafter.kind != "distinct" or number == 0:
                    torch.testing.assert_close(probs, right, rtol=1e-6, atol=1e-8)
        accepted = [draft.tokens[node] for node in draft.path(len(draft) - 1)]
        text = [*text[:4], seed] if seed == 3 else [*text, *accepted[:seed], last]


def tokens_of(rounds: Iterable[Round]) -> list[int]:
    """Returns the tokens of a text's rounds."""
    return [token for round in rounds for token in round.tokens]
