"""Code in the sandbox passes only if it ends by itself, within its limits."""

import fcntl
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from outrider.base.errors import ConfigError
from outrider.lab.measuring import sandbox
from outrider.lab.measuring.sandbox import can_change_files, passes, without_network


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


def test_processes_of_the_code_end_with_the_code(tmp_path: Path) -> None:
    """What the code has forked holds a lock as long as it lives."""
    path = tmp_path / "locked"
    path.touch()
    code = (
        f"import fcntl, os, time\nfile = open({str(path)!r})\nfcntl.flock(file, fcntl.LOCK_EX)\n"
        "if os.fork() == 0:\n    time.sleep(60)\n"
    )
    assert passes(code)
    with path.open() as file:
        for _ in range(100):
            with suppress(BlockingIOError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            time.sleep(0.05)
    pytest.fail("it outlived the code")


@pytest.mark.parametrize("change", ["remove({!r})", "truncate({!r}, 0)", "rename({!r}, 'other')"])
def test_files_are_protected_where_the_system_can(tmp_path: Path, change: str) -> None:
    path = tmp_path / "mine"
    path.write_text("text")
    changed = passes("import os; os." + change.format(str(path)))
    assert changed == can_change_files()
    assert (path.exists() and path.read_text() == "text") == (not changed)


def test_the_kind_of_isolation_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "without_network", lambda: ("unshare",))
    monkeypatch.setattr(sandbox, "can_change_files", lambda: False)
    assert sandbox.isolation() == "without network, and it can't change files"
    monkeypatch.setattr(sandbox, "without_network", lambda: ())
    monkeypatch.setattr(sandbox, "can_change_files", lambda: True)
    assert sandbox.isolation() == "WITH NETWORK, and IT CAN REMOVE YOUR FILES"


def test_the_network_is_cut_off_where_the_system_can(monkeypatch: pytest.MonkeyPatch) -> None:
    connect = (
        "import socket\n"
        "server = socket.create_server(('127.0.0.1', 0))\n"
        "socket.create_connection(server.getsockname(), 1)\n"
    )
    assert passes(connect) == (without_network() == ())
    monkeypatch.setattr(sandbox, "without_network", lambda: ())
    assert passes(connect)  # it is the namespace that takes it
    assert not passes("import time; time.sleep(60)", seconds=0.3)


def test_a_system_without_limits_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(ConfigError, match="quality='pass1': expected another"):
        passes("")


def test_a_system_that_denies_namespaces_is_found_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    denied = tmp_path / "unshare"
    denied.write_text("#!/bin/sh\nexit 1\n")
    denied.chmod(0o755)
    for path in (tmp_path, tmp_path / "empty"):
        monkeypatch.setenv("PATH", str(path))
        assert sandbox.without_network.__wrapped__() == ()
