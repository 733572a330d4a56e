"""TextMemory: what drafters keep of texts that have ended, shared by all texts of a drafter."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from outrider.base.errors import require
from outrider.contract.drafter import Drafter
from outrider.contract.target import Target
from outrider.drafters.parts.texts.memory_file import MemoryFile


class TextMemory(ABC):
    """What is kept of texts that have ended. It does not change while a batch is being written.

    count: the number of these texts, which `Drafter.remembered` returns.
    """

    def __init__(self) -> None:
        self.count = 0

    @staticmethod
    @abstractmethod
    def entry(vocab_size: int) -> Any:
        """Returns the annotation of what is learned from one text, which fits JSON."""

    @abstractmethod
    def learn(self, entry: Any) -> None:
        """Adds what a text taught, and drops what there is no room for."""

    @property
    @abstractmethod
    def size(self) -> int:
        """Returns the number of entries that an empty memory would learn to become this one."""

    @abstractmethod
    def entries(self) -> Iterable[Any]:
        """Returns these entries."""


Kept = TypeVar("Kept", bound=TextMemory)


class RememberingDrafter(Drafter, Generic[Kept]):
    """A drafter that may learn from texts that have ended.

    new_memory: makes an empty memory.
    remember: whether it does; otherwise the memory stays empty.
    file: keeps the memory from run to run. After `forget` it is read, but no longer written.
    """

    def __init__(
        self, new_memory: Callable[[], Kept], remember: bool, file: str | None = None
    ) -> None:
        require(remember or file is None, "drafter.memory", file, "none, as remember is false")
        self._new_memory, self._remembers = new_memory, remember
        self._past: Kept = new_memory()
        self._file = None if file is None else MemoryFile(file, type(self).__name__)
        self._writes = True
        self._read_for: Target | None = None

    def bind(self, target: Target) -> None:
        if self._file is None or self._read_for is target:
            return
        past = self._new_memory()
        before, entries = self._file.read(target, past.entry(target.vocab_size))
        for entry in entries:
            past.learn(entry)
        past.count = before + len(entries)
        self._past, self._read_for = past, target

    @property
    def remembers(self) -> bool:
        return self._remembers

    def learn(self, entry: Any) -> None:
        """Adds what a text taught to the memory, and to its file."""
        self._past.learn(entry)
        self._past.count += 1
        if self._file is not None and self._writes:
            self._file.add(entry, self._past)

    @property
    def remembered(self) -> int:
        return self._past.count

    def forget(self) -> None:
        self._past = self._new_memory()
        self._writes, self._read_for = False, None
