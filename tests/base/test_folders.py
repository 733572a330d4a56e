"""Files are written whole or not at all, and one process at a time writes to a folder."""

import errno
import fcntl
import os
import resource
import threading
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
import torch
from filelock import Timeout

from outrider import ConfigError
from outrider.base.folders import append_line, claimed, hold, made_once, replacing, write_whole


def test_a_file_that_can_not_be_written_stays_unchanged(tmp_path: Path, failing: Any) -> None:
    path = tmp_path / "x.json"
    write_whole(path, "old")
    with failing("x.json", errno.ENOSPC):
        with pytest.raises(OSError) as caught:
            write_whole(path, "new")
        assert (caught.value.filename, caught.value.errno) == (str(path), errno.ENOSPC)
        with pytest.raises(OSError) as caught:
            append_line(path, "new")
        assert caught.value.filename == str(path)
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["x.json"]


def test_a_file_is_on_the_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = list[tuple[str, str]]()

    def note(descriptor: int) -> None:
        names = sorted(path.name for path in tmp_path.glob("[!.]*"))
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        synced.append((path.name, ", ".join(names)))

    monkeypatch.setattr(os, "fsync", note)
    write_whole(tmp_path / "x.json", "content")
    assert synced == [(".x.json.new", ""), (tmp_path.name, "x.json")]
    append_line(tmp_path / "x.json", "line")
    assert synced[-1][0] == "x.json"


@pytest.mark.parametrize("code", [errno.EINVAL, errno.ENOTSUP])
def test_a_file_is_written_where_the_disk_can_not_be_waited_for(
    tmp_path: Path, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "fsync", fails)
    write_whole(tmp_path / "x.json", "content")
    append_line(tmp_path / "x.json", "line")
    assert (tmp_path / "x.json").read_text() == "contentline\n"


def test_torch_does_not_say_that_the_disk_is_full_but_the_error_does(tmp_path: Path) -> None:
    """The limit on the size of files stands for a full disk."""
    path = tmp_path / "x.pt"
    path.write_text("old")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, before[1]))
    try:
        line = "can't be written, the disk may be full"
        with pytest.raises(OSError, match=line) as caught, replacing(path) as scratch:
            torch.save(torch.zeros(2**20), scratch)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert caught.value.filename == str(path)
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["x.pt"]


def write(path: Path, cut: int) -> None:
    """Writes a file; with a status in `cut`, the process ends in the middle, as if killed."""
    with replacing(path) as scratch:
        scratch.write_text("new")
        _ = cut and os._exit(cut)


def make(path: Path, cut: int) -> None:
    def made(scratch: Path) -> Path:
        (scratch / "model").mkdir()
        _ = cut and os._exit(cut)
        return scratch / "model"

    made_once(path.name, made)


@pytest.mark.parametrize("work", [write, make])
def test_a_killed_process_has_its_scratch_removed_by_the_next(
    work: Callable[[Path, int], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platformdirs.user_cache_path", lambda _: tmp_path)
    child = get_context("fork").Process(target=work, args=(tmp_path / "x.json", 9))
    child.start()
    child.join()
    assert child.exitcode == 9 and not (tmp_path / "x.json").exists()
    assert any(tmp_path.iterdir())
    work(tmp_path / "x.json", 0)
    left = {path.name for path in tmp_path.iterdir()} - {".x.json.lock"}
    assert left == {"x.json"}


def test_a_folder_has_one_writer_and_a_line_says_who(tmp_path: Path) -> None:
    line = rf"{tmp_path}: process {os.getpid()} on .* writes to it: expected another folder"
    with claimed(tmp_path), pytest.raises(ConfigError, match=line), claimed(tmp_path):
        pass
    with claimed(tmp_path):  # it is free again
        pass


def test_who_may_wait_is_told_for_whom(tmp_path: Path) -> None:
    path, lines, order = tmp_path / "texts.jsonl", list[str](), list[str]()

    def wait() -> None:
        with claimed(path, wait=lambda line: (lines.append(line), told.set())):
            order.append("second")

    told = threading.Event()
    with claimed(path):
        thread = threading.Thread(target=wait)
        thread.start()
        assert told.wait(60)
        order.append("first")
    thread.join()
    assert order == ["first", "second"]
    assert f"{path}: process {os.getpid()}" in lines[0] and lines[0].endswith("waiting for its end")


def test_a_folder_that_no_cache_takes_is_temporary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cache, calls = tmp_path / "cache", []
    cache.touch()  # as little to be written to as a folder that is read-only, also as root
    monkeypatch.setattr("platformdirs.user_cache_path", lambda name: cache / name)

    def made(scratch: Path) -> Path:
        calls.append(scratch)
        (scratch / "model").mkdir()
        return scratch / "model"

    folder = made_once("models/tiny", made)
    assert folder.is_dir() and tmp_path not in folder.parents
    assert made_once("models/tiny", made) == folder
    assert len(calls) == 1
    line = f"{cache / 'outrider' / 'models'} can't be written to (Not a directory)"
    assert capsys.readouterr().err.startswith(line)


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
