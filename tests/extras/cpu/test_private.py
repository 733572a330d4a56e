"""What others could have written is not read from a private folder."""

import os
from pathlib import Path

import pytest

from outrider.extras.cpu import private
from outrider.extras.cpu.private import make_private, read_private


@pytest.mark.parametrize("mode", [0o777, 0o775, 0o702])
def test_a_folder_that_is_open_to_others_is_closed(tmp_path: Path, mode: int) -> None:
    folder = tmp_path / "native"
    folder.mkdir()
    folder.chmod(mode)
    make_private(folder)
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_new_folder_is_private_whatever_the_umask_is(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        make_private(tmp_path / "cache" / "native")
    finally:
        os.umask(before)
    assert (tmp_path / "cache" / "native").stat().st_mode & 0o777 == 0o700


def test_a_folder_of_another_user_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "x").write_bytes(b"x")
    monkeypatch.setattr(os, "getuid", lambda: 54321)
    monkeypatch.setattr(private, "ADMINISTRATOR", 54322)
    with pytest.raises(PermissionError, match="expected one that this user alone can write to"):
        make_private(tmp_path)
    with pytest.raises(PermissionError):
        read_private(tmp_path / "x")


def test_links_are_refused(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir(mode=0o700)
    (tmp_path / "there" / "x").write_bytes(b"x")
    (tmp_path / "folder").symlink_to("there")
    (tmp_path / "file").symlink_to("there/x")
    assert read_private(tmp_path / "there" / "x") == b"x"
    with pytest.raises(OSError, match="folder"):
        make_private(tmp_path / "folder")
    with pytest.raises(OSError, match="file"):
        read_private(tmp_path / "file")


def test_a_folder_that_was_moved_away_is_read_still(tmp_path: Path) -> None:
    folder = tmp_path / "native"
    make_private(folder)
    (folder / "x").write_bytes(b"mine")
    with private.private(folder) as here:
        folder.rename(tmp_path / "away")
        folder.mkdir()
        (folder / "x").write_bytes(b"theirs")
        assert read_private(here / "x") == b"mine"
