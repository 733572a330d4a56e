"""A file is held by one process at a time, on file systems without locks too."""

import errno
import fcntl
import os
from pathlib import Path

import pytest
from filelock import Timeout

from outrider.base.folders import claimed
from outrider.base.locks import hold


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.ENOTSUP])
def test_a_file_system_without_locks_has_one_writer_too(
    tmp_path: Path, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_locks(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(fcntl, "flock", no_locks)
    lock = hold(tmp_path / "run.lock")
    with pytest.raises(Timeout):
        hold(tmp_path / "run.lock")
    lock.release()
    with claimed(tmp_path):  # it is free again
        pass


def test_a_lock_that_can_not_be_taken_names_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(fcntl, "flock", fails)
    with pytest.raises(OSError, match="Input/output error") as caught:
        hold(tmp_path / "run.lock")
    assert caught.value.filename == str(tmp_path / "run.lock")
