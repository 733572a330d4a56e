"""Memory: what a drafter keeps of texts that have ended, shared by all of its forks."""

from outrider.contract.drafter import Constant


class Memory(Constant):
    """What is kept of texts that have ended. It does not change while a batch is being written.

    count: the number of these texts, which `Drafter.remembered` returns.
    """

    def __init__(self) -> None:
        self.count = 0
