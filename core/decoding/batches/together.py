"""Drafters of which one may draft for all texts of a batch, in place of one for each."""

from abc import abstractmethod

from outrider.contract.drafter import Drafter


class Together(Drafter):
    """A drafter of which one drafts for several texts."""

    @abstractmethod
    def open_together(self) -> Drafter | None:
        """Returns the drafter of several texts, as `open` does of one; None if there is none.

        Its `propose_batch` is given a pair for each text in progress: one of each, if any is.
        """
