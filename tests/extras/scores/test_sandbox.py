"""Code in the sandbox passes only if it ends by itself, within its limits."""

import ctypes
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from outrider.base.errors import ConfigError
from outrider.extras.scores import confinement, sandbox
from outrider.extras.scores.sandbox import passes


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("assert sum([1, 2]) == 3", True),
        ("print('x' * 10**7)", True),
        ("assert False", False),
        ("def f(:", False),
        ("import sys; sys.exit(0)", False),
        ("import os; os._exit(0)", False),
        ("big = bytearray(3 << 30)", False),
        ("files = [open('/dev/null') for _ in range(100)]", False),
        ("with open('notes', 'w') as file: file.write('much')", False),
        ("import os; assert 'PATH' not in os.environ and not os.listdir('.')", True),
        ("import sys; assert not sys.stdin.read()", True),
        ("import numpy", False),  # the standard library is all there is
    ],
)
def test_code_passes_if_it_ends_by_itself(code: str, expected: bool) -> None:
    assert passes(code) == expected


@pytest.mark.parametrize("code", ["while True: pass", "import time; time.sleep(60)"])
def test_code_that_does_not_end_is_ended(code: str) -> None:
    assert not passes(code, seconds=0.3)


def test_all_processes_of_the_code_share_its_limits() -> None:
    started = (
        "import os, time\nfor _ in range({}):\n    if os.fork() == 0:\n{}        time.sleep(9)\n"
    )
    assert passes(started.format(4, ""))
    assert not passes(started.format(40, "") + "time.sleep(9)", seconds=5)
    if sys.platform == "linux":  # each has less than the limit, and all together more
        filled = "        filled = b'x' * (300 << 20)\n"
        began = time.monotonic()
        assert not passes(started.format(5, filled) + "time.sleep(9)", seconds=9)
        assert time.monotonic() - began < 9


WAYS = dict(confinement.ways())
NO_NAMESPACES = pytest.mark.skip("the system has no namespaces, and alone root can rename it")
IN_NAMESPACES = [x for x in WAYS if x != "alone"] or [pytest.param("alone", marks=NO_NAMESPACES)]
CHANGES = "" if ctypes.CDLL(None).syscall(444, None, 0, 1) >= 1 else "change your files, "
"""What Landlock, which older kernels have not, denies in addition."""
FILES = f"read your files, {CHANGES}change their rights"

LINES = {
    "bubblewrap": "nothing of this machine is within its reach",
    "namespaces": f"it can {FILES}, connect to services of this machine",
    "alone": f"it can {FILES}, ",
}
"""By way of confining, how the line begins that says what is within reach."""


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Confines in each of the ways that this system has."""
    monkeypatch.setattr(sandbox, "confined", lambda: WAYS[request.param])
    sandbox.isolation.cache_clear()
    yield request.param
    sandbox.isolation.cache_clear()


def test_processes_of_the_code_end_with_the_code(way: str, tmp_path: Path) -> None:
    sleep = f"[sys.executable, '-c', 'import time; time.sleep(60)', {str(tmp_path)!r}]"
    code = f"import os, sys\nif os.fork() == 0:\n    os.execv(sys.executable, {sleep})\n"
    assert passes(code + "import time; time.sleep(.3)")
    for _ in range(72_000):
        if not any(str(tmp_path).encode() in command for command in commands()):
            return
        time.sleep(0.05)
    pytest.fail("it outlived the code")


def commands() -> Iterator[bytes]:
    """Yields the command lines of all processes."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            yield path.read_bytes()


@pytest.mark.parametrize("change", ["remove({!r})", "truncate({!r}, 0)", "rename({!r}, 'other')"])
def test_files_are_protected(tmp_path: Path, change: str, way: str) -> None:
    path = tmp_path / "mine"
    path.write_text("text")
    changed = passes("import os; os." + change.format(str(path)))
    assert (path.exists() and path.read_text() == "text") == (not changed)
    assert changed == ("change your files" in sandbox.isolation())


def test_a_change_of_rights_is_said(tmp_path: Path, way: str) -> None:
    path = tmp_path / "mine"
    path.touch()
    path.chmod(0o644)
    passes(f"import os; os.chmod({str(path)!r}, 0)")
    assert (path.stat().st_mode & 0o777 == 0) == ("change their rights" in sandbox.isolation())


def test_the_reach_of_code_is_said(way: str) -> None:
    line = sandbox.isolation()
    assert line.startswith(LINES[way])
    assert ("leave processes behind" in line) == (way == "alone")
    assert passes("import json, random, re, unittest")
    assert not passes("import time; time.sleep(60)", seconds=0.3)


@pytest.mark.parametrize("way", IN_NAMESPACES, indirect=True)
def test_a_machine_keeps_its_name(way: str) -> None:
    name = socket.gethostname()
    passes("import socket; socket.sethostname('renamed')")
    assert socket.gethostname() == name


def test_a_system_without_limits_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(ConfigError, match="quality='pass1': expected another"):
        passes("")


def test_a_system_that_denies_confinement_is_found_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("bwrap", "unshare"):
        denied = tmp_path / name
        denied.write_text("#!/bin/sh\nexit 1\n")
        denied.chmod(0o755)
    for path in (tmp_path, tmp_path / "empty"):
        monkeypatch.setenv("PATH", str(path))
        assert [way for way, _ in confinement.ways()] == ["alone"]
        assert confinement.confined.__wrapped__()[0] == sys.executable


@pytest.mark.parametrize("content", ["#!/bin/sh\nexec sleep 60\n", "no program"])
def test_a_way_that_hangs_or_is_no_program_is_passed_over(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: str
) -> None:
    (tmp_path / "bwrap").write_text(content)
    (tmp_path / "bwrap").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(confinement, "SECONDS", 0.5)
    assert confinement.works([str(tmp_path / "bwrap")]) is False
