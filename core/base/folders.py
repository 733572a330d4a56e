"""Files that are written whole or not at all, and folders that one process writes to."""

import atexit
import errno
import os
import secrets
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

import platformdirs
from filelock import BaseFileLock, FileLock, SoftFileLock, Timeout
from safetensors import SafetensorError

from outrider.base.errors import ConfigError, message_of
from outrider.base.terminal import remark

NO_SYNC = {errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EROFS}
"""What a file system answers that can't be asked to write to the disk at once."""

NO_LOCKS = {errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP}
"""What a file system answers that has no locks, such as NFS without its lock service."""


def write_whole(path: Path, content: str | bytes) -> None:
    """Writes a file in one step: others see the old content or the new, never a part.

    Raises `OSError` if it can't be written, for example to a full disk; the error names the file,
    whose content is unchanged.
    """
    with replacing(path) as scratch:
        scratch.write_bytes(content.encode() if isinstance(content, str) else content)


def can_be_written(name: str) -> bool:
    """Returns whether a file or a folder can be written, whose folders may not be there yet.

    A file must not be in the way, and the disk must have room for a block.
    """
    try:
        path = Path(name).expanduser()
        if path.is_file():
            path.open("ab").close()
            return True
        while not path.exists():
            path = path.parent
        with tempfile.TemporaryFile(dir=path) as file:
            file.write(bytes(4096))
        return True
    except OSError:
        return False


def write_if_possible(path: Path, content: str) -> None:
    """Writes a file of a cache likewise; without it the work is done again."""
    with suppress(OSError):  # a full disk, or another user's folder
        write_whole(path, content)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yields the path of a new file, which replaces `path` at the end if nothing was raised.

    Its folder is made if need be. A power cut after that loses nothing, and what a killed process
    leaves is overwritten by the next. The block may only write. torch and safetensors raise errors
    of their own for a full disk.

    Raises `OSError` as `write_whole` does.
    """
    scratch = path.with_name(f".{path.name}.new")
    guard, lock = scratch.with_name(f"{scratch.name}.lock"), None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            lock = hold(guard)
        except Timeout:  # another process writes it at this moment, maybe in another container
            scratch = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
        yield scratch
        _sync(scratch)
        scratch.replace(path)
        _sync(path.parent)
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(path)) from error
    except (RuntimeError, SafetensorError) as error:
        reason = message_of(error)
        line = f"can't be written, the disk may be full ({reason})"
        raise OSError(errno.EIO, line, str(path)) from error
    finally:
        with suppress(OSError):
            scratch.unlink(missing_ok=True)
            if lock is not None:
                guard.unlink(missing_ok=True)
        if lock is not None:
            lock.release()


def append_line(path: Path, line: str) -> None:
    """Appends a line to a file, which is written completely when the function returns.

    Raises `OSError` if it can't be written; the error names the file.
    """
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")
            file.flush()
            _sync(path)
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(path)) from error


def hold(path: Path, seconds: float | None = 0) -> BaseFileLock:
    """Returns the lock of a file, which this process holds until its `release`, or its end.

    Where the file system has no locks, the existence of a file beside it is the lock.

    seconds: how long to wait for another process; None waits for as long as it takes.

    Raises:
        Timeout: another process holds it still.
        OSError: it can't be locked; the error names the file.
    """
    timeout = -1 if seconds is None else seconds
    lock: BaseFileLock = FileLock(path)
    try:
        try:
            lock.acquire(timeout=timeout)
        except OSError as error:
            if error.errno not in NO_LOCKS:
                raise
            lock = SoftFileLock(path.with_name(f"{path.name}.held"))
            lock.acquire(timeout=timeout)
    except Timeout:  # an OSError, too
        raise
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(path)) from error
    return lock


@contextmanager
def claimed(path: Path, wait: Callable[[str], None] | None = None) -> Iterator[None]:
    """Keeps other processes from claiming a folder or a file; the end of the process frees it.

    wait: called with a line that says who holds it, before waiting. Defaults to not waiting.

    Raises:
        ConfigError: another process holds it, and `wait` is None.
        OSError: it can't be locked, for example in a read-only folder; the error names the file.
    """
    file = path / ".lock" if path.is_dir() else path.with_name(f".{path.name}.lock")
    holder = file.with_suffix(".holder")
    try:
        lock = hold(file)
    except Timeout as error:
        name = "another process"  # where its note is about to be written, or just deleted
        with suppress(OSError):
            name = holder.read_text(encoding="utf-8")
        line = f"{path}: {name} writes to it"
        if wait is None:
            raise ConfigError(f"{line}: expected another folder, or wait for its end") from error
        wait(f"{line}; waiting for its end")
        lock = hold(file, None)
    try:
        command = " ".join(sys.argv)[:120].encode(errors="replace").decode()
        since = time.strftime("%Y-%m-%d %H:%M:%S")
        write_whole(holder, f"process {os.getpid()} on {socket.gethostname()} ({command}, {since})")
        yield
    finally:
        holder.unlink(missing_ok=True)
        lock.release()


def made_once(name: str, make: Callable[[Path], Path]) -> Path:
    """Returns a folder of the user's cache that the first call makes; others wait for it.

    If nothing can be written there, a temporary folder has it until the process ends.

    name: the folder, such as "gguf/NAME". make: is given an empty folder to work in, and returns
        the folder in it that becomes the result.
    """
    folder = Path(platformdirs.user_cache_path("outrider")) / name
    if folder.is_dir():
        return folder
    folder = _writable(folder.parent) / folder.name
    with claimed(folder, wait=remark):
        if not folder.is_dir():
            scratch = folder.with_name(f".{folder.name}.new")
            shutil.rmtree(scratch, ignore_errors=True)  # of a process that was killed
            scratch.mkdir()
            try:
                os.replace(make(scratch), folder)  # in one step: no process sees half of it
            finally:
                shutil.rmtree(scratch, ignore_errors=True)
            remark(f"kept in {folder}")
    return folder


def _writable(folder: Path) -> Path:
    """Returns a folder if it can be written to, and else a temporary one."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError as error:
        return _temporary(folder, error.strerror)


@cache
def _temporary(folder: Path, reason: str) -> Path:
    """Returns what stands for a folder until the process ends, and says so."""
    temporary = Path(tempfile.mkdtemp(prefix="outrider-"))
    atexit.register(shutil.rmtree, temporary, ignore_errors=True)
    line = f"{folder} can't be written to ({reason}): nothing is kept for another run"
    remark(f"{line}; XDG_CACHE_HOME names another cache")
    return temporary


def _sync(path: Path) -> None:
    """Returns once a file, or the names in a folder, are on the disk, where that can be asked."""
    if os.name != "posix":
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in NO_SYNC:
            raise
    finally:
        os.close(descriptor)
