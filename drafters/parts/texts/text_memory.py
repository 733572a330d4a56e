"""TextMemory: what drafters keep of texts that have ended, shared by all texts of a drafter."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Generic, TypeVar

from outrider.contract.context import Context
from outrider.contract.drafter import Drafter


class TextMemory:
    """What is kept of texts that have ended. It does not change while a batch is being written.

    count: the number of these texts, which `Drafter.remembered` returns.
    """

    def __init__(self) -> None:
        self.count = 0


Kept = TypeVar("Kept", bound=TextMemory)


class RememberingDrafter(Drafter, Generic[Kept]):
    """A drafter that may learn from texts that have ended.

    memory: makes an empty memory.
    remember: whether it does; otherwise the memory stays empty.
    """

    def __init__(self, memory: Callable[[], Kept], remember: bool) -> None:
        self._new_memory, self._remembers = memory, remember
        self._past: Kept = memory()

    @property
    def remembers(self) -> bool:
        return self._remembers

    @abstractmethod
    def remember(self, context: Context) -> None: ...

    @property
    def remembered(self) -> int:
        return self._past.count

    def forget(self) -> None:
        self._past = self._new_memory()
