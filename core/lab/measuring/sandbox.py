"""Runs code that a model wrote, in a process of its own, with limits.

The code has limited time and memory, and can't write to files. On most Linux systems it has no
network (namespaces) and can't create, rename or delete files (Landlock); `isolation` says what
holds on this system. It can read whatever its user can. If a model may be hostile, run Outrider
itself in a container.
"""

import json
import math
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path

from outrider.base.errors import require

SECONDS = 10.0
"""The time that code may take, on the clock and on the processor."""

MEMORY = 1 << 30
"""The bytes of memory that code may use. macOS does not enforce such a limit."""

FILES = 32
"""The files that code may have open."""

RUNNER = Path(__file__).parent / "sandboxed.py"


def passes(code: str, seconds: float = SECONDS) -> bool:
    """Returns whether Python code ends by itself, without an error and within its limits.

    The code has the standard library, an empty folder to run in, none of the environment variables
    and no input; what it prints is lost. Code that leaves early, by `sys.exit` for example, does
    not pass.
    """
    require_sandbox()
    token = secrets.token_hex(16)
    reading, writing = os.pipe()
    job = {"code": code, "pipe": writing, "token": token, "limits": _limits(seconds)}
    try:
        with tempfile.TemporaryDirectory() as folder:
            _run(json.dumps(job), writing, folder, seconds)
        os.set_blocking(reading, False)  # something may have outlived the process, and hold it open
        with suppress(BlockingIOError):
            return os.read(reading, len(token)) == token.encode()
        return False
    finally:
        os.close(reading)
        os.close(writing)


def require_sandbox() -> None:
    """Raises `ConfigError` if the system can't limit what a process uses."""
    posix = sys.platform != "win32"
    require(posix, "quality", "pass1", "another score: the sandbox needs Linux or macOS")


@cache
def without_network() -> tuple[str, ...]:
    """Returns the command that starts another without network; empty if the system has none.

    It uses Linux's namespaces, which need no special rights, though a system may deny them.
    Processes that the command leaves behind end with it.
    """
    program = shutil.which("unshare")
    if program is None:
        return ()
    command = (program, "--user", "--map-root-user", "--net", "--pid", "--fork", "--kill-child")
    idle = [*command, sys.executable, "-I", "-S", "-c", ""]
    probe = subprocess.run(idle, check=False, capture_output=True)
    return command if probe.returncode == 0 else ()


@cache
def can_change_files() -> bool:
    """Returns whether code can create, rename and delete files on this system."""
    return passes("import os; os.mkdir('made')")


def isolation() -> str:
    """Returns what code can reach in the sandbox on this system, in words."""
    network = "without network" if without_network() else "WITH NETWORK"
    files = "IT CAN REMOVE YOUR FILES" if can_change_files() else "it can't change files"
    return f"{network}, and {files}"


def _run(job: str, pipe: int, folder: str, seconds: float) -> None:
    """Runs a job to its end, or to the end of its time."""
    process = subprocess.Popen(
        [*without_network(), sys.executable, "-I", "-S", "-B", str(RUNNER)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=folder,
        env={},
        pass_fds=[pipe],
        start_new_session=True,
    )
    try:
        process.communicate(job.encode(), timeout=seconds)
    except subprocess.TimeoutExpired:
        pass
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _limits(seconds: float) -> list[tuple[int, int]]:
    """Returns kinds of limits, by their numbers on this system, each with its value."""
    import resource

    limits = [
        (resource.RLIMIT_CPU, math.ceil(seconds)),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NOFILE, FILES),
        (resource.RLIMIT_CORE, 0),
    ]
    return limits + [(resource.RLIMIT_AS, MEMORY)] * (sys.platform == "linux")
