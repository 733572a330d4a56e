"""Memory: what a drafter keeps of texts that have ended, shared by all of its forks."""

from outrider.contract.drafter import Constant


class Memory(Constant):
    """What is kept of texts that ended. It is constant while the texts of a batch are under way.

    count: how many texts there are; what `Drafter.remembered` returns.
    """

    def __init__(self) -> None:
        self.count = 0
