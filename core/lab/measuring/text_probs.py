"""The tokens of a given text: how drafts follow it, and how likely its tokens were."""

from collections.abc import Sequence
from typing import final

from jaxtyping import Float
from torch import Tensor

from outrider.contract.chance import Chance
from outrider.contract.draft import Draft


@final
class ForcedChance(Chance):
    """Draws the next token of a given text wherever that token has any probability.

    text: the tokens that follow. other: what draws elsewhere.
    """

    def __init__(self, text: Sequence[int], other: Chance) -> None:
        self._text = text
        self._other = other
        self._position = 0

    def more(self, draft: Draft) -> bool:
        """Notes the length of a draft, and returns whether its last token is the text's."""
        self._position = len(draft)
        return draft.tokens[-1] == self._text[self._position - 1]

    def coins(self, probs: Float[Tensor, "n"]) -> list[bool]:
        return self._other.coins(probs)

    def categorical(self, probs: Float[Tensor, "vocab"]) -> int:
        token = self._text[self._position]
        return token if probs[token] > 0 else self._other.categorical(probs)


def probability(logits: Float[Tensor, "vocab"], token: int) -> float:
    """Returns the probability of a token at temperature 1."""
    return float((logits[token] - logits.logsumexp(-1)).exp())


def drafter_probability(draft: Draft, token: int) -> float | None:
    """Returns the probability of `token` as the first of a draft, None if there is no draft."""
    if not draft:
        return None
    logits = draft.logits[0] if draft.logits else None
    return float(draft.tokens[0] == token) if logits is None else probability(logits, token)
