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
    """

    examples: ClassVar[Sequence[PolicyExample]] = ()

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


@final
class Fixed(Policy):
    """Always drafts to the full depth."""

    def depth(self, gamma: int) -> int:
        return gamma
