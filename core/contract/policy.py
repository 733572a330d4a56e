"""Policy: decides how long each draft is, by the tokens already in it and by earlier rounds."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, final

from outrider.contract.draft import Draft
from outrider.contract.examples import PolicyExample
from outrider.contract.round import Round


class Policy(ABC):
    """Decides how long to draft.

    Its answers never depend on a token that is not in the draft: to draw a token, look at it and
    then leave it out would bias the text.

    examples: how long its drafts are in some rounds. The conformance kit plays them.
    texts_before: how many texts it has learned from in earlier runs, if it keeps what it learns.
    """

    examples: ClassVar[Sequence[PolicyExample]] = ()
    texts_before: int = 0

    @abstractmethod
    def depth(self, gamma: int) -> int:
        """Returns the depth of the next draft, from 0 (no draft) to `gamma`."""

    def more(self, draft: Draft) -> bool:
        """Returns whether to go on drafting. Asked after each token or group of siblings."""
        return True

    def observe(self, round: Round) -> None:
        """Learns from a finished round."""

    @property
    def learns(self) -> bool:
        """Returns whether its answers may depend on the rounds before.

        If they don't, the lab can work out the expected tokens per target call.
        """
        return type(self).observe is not Policy.observe

    def reset(self) -> None:
        """Forgets what belongs to one prompt. Called before each prompt."""

    @property
    def texts(self) -> dict[str, int]:
        """Returns how many texts it has decided on, by the label of their chance.

        The loop keeps this book. A policy that has seen a text with the same seed could know the
        random decisions of the next one, so that gets others.
        """
        counts: dict[str, int] = self.__dict__.setdefault("_texts", {})
        return counts


@final
class Fixed(Policy):
    """Always drafts to the full depth."""

    def depth(self, gamma: int) -> int:
        return gamma
