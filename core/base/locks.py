"""A file that one process at a time holds, on any file system."""

import errno
from pathlib import Path

from filelock import BaseFileLock, FileLock, SoftFileLock, Timeout

NO_LOCKS = {errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP}
"""What a file system answers that has no locks, such as NFS without its lock service."""


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
