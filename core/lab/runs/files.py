"""Files of runs: which folders hold a run, and reading what may be damaged or lead elsewhere."""

import os
import stat
from collections.abc import Iterable
from pathlib import Path

from outrider.base.errors import ConfigError

FACTS, LINES, LOCK = "run.json", "measurements.jsonl", "run.lock"
"""The files of a run: what it was started with, its measurements, and the lock of its process."""


def run_folders(folders: Iterable[Path]) -> list[Path]:
    """Returns the folders of all runs in some folders and below them, sorted, each once.

    Links to folders below them are not followed, and folders that can't be read are left out.
    """
    found = {
        Path(folder).resolve(): Path(folder)
        for top in folders
        for folder, names, files in os.walk(top)
        if FACTS in files or FACTS in names
    }
    return sorted(found.values())


def read_in(folder: Path, name: str) -> bytes | None:
    """Returns the content of a file in a run's folder, None if there is none.

    Raises `ConfigError` if it can't be read, is no file, or is a link that leaves the folder.
    """
    path = folder / name
    try:
        real = path.resolve(strict=True)
        if not real.is_relative_to(folder.resolve()):
            raise ConfigError(f"{path}: leads to {real}, expected a file in this folder")
        # A pipe must not be waited for, so it is opened without and looked at then.
        descriptor = os.open(real, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise ConfigError(f"{path}: damaged, expected a file")
            return file.read()
    except FileNotFoundError:
        if path.is_symlink():
            raise ConfigError(f"{path}: a link to nothing, expected a file") from None
        return None
    except (OSError, RuntimeError) as error:  # RuntimeError: links in a circle
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"{path}: can't be read, {reason}") from error


def stamp(folder: Path, name: str) -> tuple[int, float] | None:
    """Returns the size and the time of a file's last change, None if there is none."""
    try:
        found = (folder / name).stat()
    except (OSError, RuntimeError):
        return None
    return found.st_size, found.st_mtime
