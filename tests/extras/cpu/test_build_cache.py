"""The build cache loads what this user compiled, whole, and builds again whatever else it finds."""

import ctypes
import os
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from outrider.extras.cpu import library as native
from outrider.extras.cpu.library import kept_or_built

KEY = "native-key"


@pytest.fixture(scope="session")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a library that says 0, `ours.so`, and one that says 1, `theirs.so`."""
    folder = tmp_path_factory.mktemp("libraries")
    for name, value in (("ours", 0), ("theirs", 1)):
        source = folder / f"{name}.c"
        source.write_text(f"int outrider_has_tiles(void) {{ return {value}; }}\n")
        subprocess.run(["cc", "-shared", "-fPIC", source, "-o", folder / f"{name}.so"], check=True)
    return folder


Fake = Callable[[str], Path]


@pytest.fixture
def fake(tmp_path: Path) -> Fake:
    """Returns a compiler that notes each call in `calls`, and runs lines of a shell.

    They find the path of the library to make in `$out`.
    """

    def made(lines: str) -> Path:
        path = tmp_path / "cc"
        find = "for out; do :; done\n"
        path.write_text(f"#!/bin/sh\necho call >> {tmp_path}/calls\n{find}{lines}\n")
        path.chmod(0o755)
        return path

    return made


def calls(folder: Path) -> int:
    path = folder / "calls"
    return len(path.read_text().splitlines()) if path.exists() else 0


def test_a_library_is_compiled_once(tmp_path: Path, libraries: Path, fake: Fake) -> None:
    cc, folder = fake(f"sleep .2; cp {libraries}/ours.so $out"), tmp_path / "native"
    with ThreadPoolExecutor(4) as pool:
        built = list(pool.map(lambda _: kept_or_built(folder, KEY, cc), range(4)))
    assert [library.outrider_has_tiles() for library in built] == [0] * 4
    assert calls(tmp_path) == 1
    (path,) = folder.glob("*.so")
    assert (folder.stat().st_mode & 0o777, path.stat().st_mode & 0o777) == (0o700, 0o600)
    kept_or_built(folder, KEY, None)  # what is kept needs no compiler
    assert {path.suffix for path in folder.iterdir()} <= {".so", ".lock"}


@pytest.mark.parametrize("damage", ["cut", "empty", "text", "zeros", "flipped"])
def test_a_damaged_library_is_built_again(
    tmp_path: Path, libraries: Path, fake: Fake, damage: str
) -> None:
    """Loading what is cut short or zeroed would end the process."""
    cc, folder = fake(f"cp {libraries}/ours.so $out"), tmp_path / "native"
    kept_or_built(folder, KEY, cc)
    (path,) = folder.glob("*.so")
    sound = path.read_bytes()
    damaged = {
        "cut": sound[: len(sound) // 3],
        "empty": b"",
        "text": b"not a library",
        "zeros": sound[:4096] + bytes(len(sound) - 4096),
        "flipped": sound[:-1] + bytes([sound[-1] ^ 1]),
    }
    path.unlink()  # this process has mapped the sound one
    path.write_bytes(damaged[damage])
    assert kept_or_built(folder, KEY, cc).outrider_has_tiles() == 0
    assert path.read_bytes() == sound and calls(tmp_path) == 2


def test_a_library_that_others_could_have_written_is_not_loaded(
    tmp_path: Path, libraries: Path, fake: Fake
) -> None:
    cc, folder = fake(f"cp {libraries}/theirs.so $out"), tmp_path / "native"
    assert kept_or_built(folder, KEY, cc).outrider_has_tiles() == 1
    (planted,) = folder.glob("*.so")
    planted.chmod(0o660)
    fake(f"cp {libraries}/ours.so $out")
    assert kept_or_built(folder, KEY, cc).outrider_has_tiles() == 0
    assert not planted.exists()


def test_a_library_is_kept_elsewhere_if_the_cache_is_another_user_s(
    tmp_path: Path, libraries: Path, fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refusing(folder: Path, *arguments: object) -> ctypes.CDLL:
        if folder == theirs:
            raise PermissionError(1, "expected one that this user alone can write to", str(folder))
        return kept_or_built(folder, *arguments)  # type: ignore[arg-type]

    cc, theirs, ours = fake(f"cp {libraries}/ours.so $out"), tmp_path / "theirs", tmp_path / "ours"
    monkeypatch.setattr(native, "folders", lambda: [theirs, ours])
    monkeypatch.setattr(native, "find_compiler", lambda: cc)
    monkeypatch.setattr(native, "kept_or_built", refusing)
    assert native.find().library is not None
    assert list(ours.glob("*.so")) and not theirs.exists()
    monkeypatch.setattr(native, "folders", lambda: [theirs, theirs])
    assert "expected one that this user alone can write to" in native.find().reason


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ("exit 1", "can't compile it"),
        ("echo part > $out; exit 1", "can't compile it"),
        ("exit 0", "can't compile it"),
        ("echo nonsense > $out", "has made a library that can't be loaded"),
        ("head -c 4096 {libraries}/ours.so > $out", "has made a library that can't be loaded"),
        ("exec sleep 60", "took more than 0.2 seconds"),
    ],
)
def test_a_compiler_that_fails_is_remembered(
    libraries: Path, fake: Fake, lines: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cc = fake(lines.format(libraries=libraries))
    tmp_path, folder = cc.parent, cc.parent / "native"
    if "sleep" in lines:
        monkeypatch.setattr(native, "SECONDS", 0.2)
    monkeypatch.setattr(native, "folders", lambda: [folder])
    monkeypatch.setattr(native, "find_compiler", lambda: cc)
    found, before = native.find(), calls(tmp_path)
    assert found.library is None and reason in found.reason
    assert before == (2 if "can't compile" in reason else 1)  # with each option for this processor
    again = native.find()
    assert again.library is None and "tried again after an hour" in again.reason
    assert calls(tmp_path) == before
    (note,) = (path for path in folder.iterdir() if path.suffix != ".lock")  # nothing else is left
    os.utime(note, (0, note.stat().st_mtime - native.RETRY))
    native.find()
    assert calls(tmp_path) > before
    fake(f"cp {libraries}/ours.so $out")  # another compiler is tried at once
    os.utime(cc, (0, 0))
    assert native.find().library is not None


def test_the_reason_is_named_where_no_compiler_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native, "folders", lambda: [tmp_path / "native"])
    monkeypatch.setenv("PATH", str(tmp_path))
    assert native.find() == native.Found(None, "it needs a C compiler")
