"""The commands that start another one confined, by bubblewrap or by namespaces alone."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

RUNNER = Path(__file__).parent / "sandboxed.py"

NAMESPACES = ("unshare", "--user", "--map-root-user", "--net", "--pid", "--ipc", "--uts", "--fork")
"""Linux's own way: neither the network nor other processes are there, and all files are."""

BUBBLEWRAP = ("bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL")
"""The way of bubblewrap: nothing but the interpreter and the system's libraries is there."""

SECONDS = 30.0
"""The most seconds that a way may take to show that it works."""

SYSTEM = ("/usr", "/bin", "/lib", "/lib32", "/lib64", "/etc/ld.so.cache")


@cache
def confined() -> tuple[str, ...]:
    """Returns the command that runs `sandboxed.py` with the best of `ways`."""
    _, command = next(ways())
    return command


def ways() -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yields how this system can confine and the command that runs `sandboxed.py` so, best first.

    That is bubblewrap, or else namespaces, which need no special rights, though a system may deny
    them, and in the end the interpreter alone. Processes that are left behind end with the first
    one, unless it runs alone.
    """
    for way, find in (("bubblewrap", _bubblewrap), ("namespaces", _namespaces), ("alone", alone)):
        if (command := tuple(find())) and works(command):
            yield way, command


def alone(interpreter: str = sys.executable, runner: str = str(RUNNER)) -> list[str]:
    """Returns the command that runs `sandboxed.py` with nothing but its own limits."""
    return [interpreter, "-I", "-S", "-B", runner]


def _namespaces() -> list[str]:
    program = shutil.which(NAMESPACES[0])
    return [program, *NAMESPACES[1:], "--kill-child", *alone()] if program else []


def _bubblewrap() -> list[str]:
    program = shutil.which(BUBBLEWRAP[0])
    if program is None:
        return []
    # The interpreter of a virtual environment is a link, whose end may be anywhere.
    interpreter = os.path.realpath(sys.executable)
    command = [program, *BUBBLEWRAP[1:], "--tmpfs", "/tmp", "--chdir", "/tmp", "--dev", "/dev"]
    for path in dict.fromkeys((*SYSTEM, sys.base_prefix, sys.base_exec_prefix)):
        command += ["--ro-bind-try", path, path]
    runner = "/sandboxed.py"
    return [*command, "--ro-bind", str(RUNNER), runner, *alone(interpreter, runner)]


def works(command: Sequence[str]) -> bool:
    """Returns whether a command runs a job to its end, and in time."""
    job = b'{"code": "", "limits": [], "pipe": 1, "token": "done"}'
    try:
        probe = subprocess.run(
            command, input=job, check=False, capture_output=True, env={}, timeout=SECONDS
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return probe.returncode == 0 and probe.stdout == b"done"
