"""Policy: the policy that says how long to draft, judging only what was submitted."""

from abc import ABC, abstractmethod
from typing import final

from outrider.contract.draft import Draft
from outrider.contract.round import Round


class Policy(ABC):
    """How long to draft. The answers never depend on a token that was not submitted."""

    @abstractmethod
    def depth(self, gamma: int) -> int:
        """Returns the depth for the coming round, from 0 (no draft) to `gamma`."""

    def more(self, draft: Draft) -> bool:
        """Returns whether to go on after the draft so far; asked once a token was submitted."""
        return True

    def observe(self, round: Round) -> None:
        """Learns from a finished round."""

    def reset(self) -> None:
        """Forgets what belongs to one prompt; called before each."""


@final
class Fixed(Policy):
    """Always drafts as deep as it may."""

    def depth(self, gamma: int) -> int:
        return gamma
