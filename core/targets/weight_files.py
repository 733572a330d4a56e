"""The files that a model's weights come from: what they are read and recognised by."""

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Any, final

from outrider.plugins.fingerprint import hash_files, hash_tensors
from outrider.targets.adapters import base_of, is_adapter
from outrider.targets.passes.placement import is_offloaded

SUFFIXES = (".safetensors", ".bin")
"""How the names of weights end in a folder."""

STEP = 1 << 20
"""The bytes that the system is asked for at once; Linux reads no more at a single request."""


def weight_files(name: str) -> list[Path]:
    """Returns the files with the weights of a hub id, a folder or a GGUF file.

    Those of an adapter and of its model are all of them. Returns none for a hub id that was not
    downloaded yet.
    """
    from huggingface_hub import try_to_load_from_cache

    folder = Path(name).expanduser()
    if folder.is_file():
        return [folder]
    if not folder.is_dir():
        config = try_to_load_from_cache(name, "config.json")
        if not isinstance(config, str):
            return []
        folder = Path(config).parent
    files = sorted(path for path in folder.iterdir() if path.suffix in SUFFIXES)
    return [*files, *weight_files(base_of(folder))] if is_adapter(folder) else files


def read_ahead(files: Sequence[Path]) -> None:
    """Lets the system read files from the disk into its memory, while something else is done.

    Does nothing for more than half of the machine's memory, or where there is no such request.
    """
    size = sum(path.stat().st_size for path in files)
    if hasattr(os, "posix_fadvise") and 2 * size < memory_bytes():
        Thread(target=ask_for, args=(files,), daemon=True).start()


def ask_for(files: Sequence[Path]) -> None:
    """Asks the system for files, part by part."""
    for path in files:
        with suppress(OSError), path.open("rb") as file:
            for start in range(0, path.stat().st_size, STEP):
                os.posix_fadvise(file.fileno(), start, STEP, os.POSIX_FADV_WILLNEED)


def memory_bytes() -> int:
    """Returns how much memory the machine has."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


@final
class WeightsOrigin:
    """Recognises a model's weights by the files that they were loaded from, or by their values.

    files: those that the model was just loaded from, or none.
    quantize: how its weights were rounded since.
    """

    def __init__(self, model: Any, files: Sequence[Path], quantize: str | None) -> None:
        self._model, self._files = model, files
        self._how = f"{model.dtype} {quantize}"
        self._loaded = self._state()

    def hash(self) -> str:
        """Returns a hash of the files; of all weights if there are none, or something has changed.

        A change that PyTorch does not count, such as one of `weight.data`, is not noticed.
        """
        if self._files and self._loaded == self._state():
            return f"{hash_files(self._files)} {self._how}"
        return hash_tensors(self._model.state_dict().items())

    def is_known(self) -> bool:
        """Returns whether there are files, or all values are at hand."""
        return bool(self._files) or not is_offloaded(self._model)

    def _state(self) -> list[tuple[int, int]]:
        stats = (path.stat() for path in self._files)
        return [
            *(
                (id(weight), weight._version)
                for weight in self._model.parameters()
                if not weight.is_meta  # one that is elsewhere is another after each pass
            ),
            *((stat.st_size, stat.st_mtime_ns) for stat in stats),
        ]
