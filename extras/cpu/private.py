"""Private folders: what is read from them was written by this user, or by the administrator."""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

OTHERS = stat.S_IWGRP | stat.S_IWOTH
"""The rights of a file's group and of everybody else to write to it."""

ADMINISTRATOR = 0
"""The user who can do anything, so that files of theirs are no less safe than one's own."""


def make_private(folder: Path) -> None:
    """Makes a folder that no other user can write to, or closes one of this user's to them.

    Raises `OSError` if it can't be made, is a link, or belongs to another user.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = folder.lstat()
    if stat.S_ISDIR(found.st_mode) and found.st_mode & OTHERS and _owned(found):
        folder.chmod(0o700)
    with private(folder):
        return


@contextmanager
def private(folder: Path) -> Iterator[Path]:
    """Yields a path of a folder that stays this one, whatever is moved to its place meanwhile.

    Raises `OSError` if there is no such folder, it is a link, or others can write to it.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        _require_private(folder, os.fstat(descriptor))
        here = Path(f"/proc/self/fd/{descriptor}")
        yield here if here.is_dir() else folder
    finally:
        os.close(descriptor)


def read_private(path: Path) -> bytes:
    """Returns the content of a file that no other user can have written.

    Raises `OSError` if it can't be read, is a link, or others can write to it.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        _require_private(path, os.fstat(descriptor))
        return file.read()


def _require_private(path: Path, found: os.stat_result) -> None:
    if found.st_mode & OTHERS or not _owned(found):
        raise PermissionError(
            errno.EPERM, "expected one that this user alone can write to", str(path)
        )


def _owned(found: os.stat_result) -> bool:
    return found.st_uid in (ADMINISTRATOR, os.getuid())
