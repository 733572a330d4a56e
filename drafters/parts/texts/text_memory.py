"""What drafters keep of texts that have ended, in memory and in a file from run to run."""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar, final

from outrider.base.bounds import check
from outrider.base.contents import json_of
from outrider.base.errors import ConfigError, require
from outrider.base.expectations import AtLeast
from outrider.base.folders import append_line, write_whole
from outrider.contract.drafter import Drafter
from outrider.contract.target import Target
from outrider.drafters.parts.checkpoint import require_same_tokens, tokens_of

FORMAT = "outrider-memory-1"
SLACK = 16
"""How many lines more than twice the memory's own a file may have."""


class TextMemory(ABC):
    """What is kept of texts that have ended. It does not change while a batch is being written.

    capacity: the most that it keeps; None for no limit.
    count: the number of these texts, which `Drafter.remembered` returns.
    """

    def __init__(self, capacity: int | None = None) -> None:
        self.count: int = 0
        self._capacity = capacity

    @staticmethod
    @abstractmethod
    def entry(vocab_size: int) -> Any:
        """Returns the annotation of what is learned from one text, which fits JSON."""

    @abstractmethod
    def learn(self, entry: Any) -> None:
        """Adds what a text taught, and drops what there is no room for."""

    @property
    def size(self) -> int:
        """Returns the number of `entries`."""
        return 1

    @abstractmethod
    def entries(self) -> Iterable[Any]:
        """Returns the entries that an empty memory would learn to become this one."""


@final
class MemoryFile:
    """A file with what a drafter learned from each text, a JSON line each, after a line of facts.

    What a memory has dropped stays in the file until this is half of it. So each text adds a line,
    and the file is seldom written anew. A last line that was cut short is left out.

    path: the file; it is made when the first text ends.
    owner: the name of the drafter's class.
    """

    def __init__(self, path: str, owner: str) -> None:
        self._setting = f"drafter.memory={path!r}"
        self._path, self._owner = Path(path).expanduser(), owner
        self._facts: dict[str, Any] = {}
        self._lines = 0

    def read(self, target: Target, entry: Any) -> tuple[int, list[Any]]:
        """Returns how many texts ended before the first line, and what the lines hold.

        Raises `ConfigError` if the file is damaged, or another drafter's or tokenizer's. entry: the
        annotation of what one line holds.
        """
        facts = {"format": FORMAT, "drafter": self._owner, **tokens_of(target)}
        self._facts, self._lines = facts, 0
        if self._path.exists() and not (self._path.is_file() or self._path.is_dir()):
            raise ConfigError(f"{self._setting}: expected a file")  # a device may never end
        try:
            content = self._path.read_bytes() if self._path.exists() else b""
        except OSError as error:
            raise ConfigError(f"{self._setting} can't be read: {error.strerror}") from error
        if not content:
            return 0, []
        *lines, rest = content.split(b"\n")
        if not lines:  # not even the first one is whole
            lines, rest = [rest], b""
        first, *entries = (self._json(number, line) for number, line in enumerate(lines, start=1))
        is_memory = isinstance(first, dict) and first.get("format") == FORMAT
        if not is_memory or first.get("drafter") != self._owner:
            raise ConfigError(f"{self._setting}: expected what {self._owner} remembers")
        require_same_tokens(self._setting, first, target)
        hints = {"texts": Annotated[int, AtLeast(0)], "entry": entry}
        values = [{"texts": first.get("texts")}, *({"entry": found} for found in entries)]
        for number, value in enumerate(values, start=1):
            try:
                check(hints, value)
            except ConfigError as error:
                raise ConfigError(f"{self._setting}, line {number}: damaged, {error}") from error
        self._lines = len(entries)
        if rest:
            write_whole(self._path, content[: -len(rest)])
        return first["texts"], entries

    def _json(self, number: int, line: bytes) -> Any:
        try:
            return json_of(line)
        except ValueError as error:
            raise ConfigError(
                f"{self._setting}, line {number}: damaged, expected JSON ({error})"
            ) from error

    def add(self, entry: Any, memory: TextMemory) -> None:
        """Adds what a text taught the memory; raises `OSError` if the file can't be written."""
        self._lines += 1
        if self._path.exists() and self._lines <= 2 * memory.size + SLACK:
            append_line(self._path, json.dumps(entry))
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        lines = [self._facts | {"texts": memory.count - memory.size}, *memory.entries()]
        write_whole(self._path, "".join(json.dumps(line) + "\n" for line in lines))
        self._lines = memory.size


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
