"""Together: a drafter of which one drafts for several texts at once."""

from abc import abstractmethod

from outrider.contract.drafter import Drafter


class Together(Drafter):
    """A drafter that a batch may open once for all of its texts, in place of once for each."""

    @abstractmethod
    def open_together(self) -> Drafter | None:
        """Returns the drafter of several texts, as `open` does of one; None if there is none.

        Its `propose_batch` is given a pair for each text in progress: one of each, if any is.
        """
