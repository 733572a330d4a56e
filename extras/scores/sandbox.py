"""Runs code that a model wrote, in a process of its own, with limits.

What of the system confines it is the matter of `confinement`; `isolation` says what is left within
its reach on this system. If a model may be hostile, run Outrider itself in a container.
"""

import json
import math
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from functools import cache
from pathlib import Path

from outrider.base.errors import require
from outrider.extras.scores.confinement import alone, confined

SECONDS = 10.0
"""The time that code may take, on the clock and on the processor."""

MEMORY = 1 << 30
"""The bytes of memory that code may use, all its processes together. Enforced on Linux alone."""

PROCESSES = 16
"""The processes that code may have, itself and what confines it included. On Linux alone."""

FILES = 32
"""The files that code may have open."""

WATCHED = 0.05
"""The seconds between two looks at what all its processes use."""

REACHES = {
    "read your files": "open({mine!r}).close()",
    "change your files": "import os; os.mkdir({mine!r} + '.made')",
    "change their rights": "import os; os.chmod({mine!r}, 0o600)",
    "reach the network": (  # what connects without a connection asks for a route, and sends nothing
        "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).connect(('192.0.2.1', 9))"
    ),
    "connect to services of this machine": (
        "import socket; socket.socket(socket.AF_UNIX).connect({service!r})"
    ),
    "send signals to your processes": "import os; os.kill({process}, 0)",
}
"""By what code may be able to do, code that does it or fails."""


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
def isolation() -> str:
    """Returns what code can reach in the sandbox on this system, in words."""
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as server:
        mine, service = Path(folder) / "mine", Path(folder) / "service"
        mine.touch()
        server.bind(str(service))
        server.listen()
        facts = {"mine": str(mine), "service": str(service), "process": os.getpid()}
        reached = [what for what, code in REACHES.items() if passes(code.format(**facts))]
    if confined() == tuple(alone()):
        reached.append("leave processes behind")
        reached += ["do what root can"] * (os.geteuid() == 0)
    if not reached:
        return "nothing of this machine is within its reach"
    return f"it can {', '.join(reached)}"


def _run(job: str, pipe: int, folder: str, seconds: float) -> None:
    """Runs a job to its end, to the end of its time, or until its processes use too much."""
    end = time.monotonic() + seconds
    process = subprocess.Popen(
        confined(),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=folder,
        env={},
        pass_fds=[pipe],
        start_new_session=True,
    )
    sent: bytes | None = job.encode()
    try:
        while (left := end - time.monotonic()) > 0 and _within_totals(process.pid):
            try:
                process.communicate(sent, timeout=min(left, WATCHED))
                return
            except subprocess.TimeoutExpired:
                sent = None
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _within_totals(root: int) -> bool:
    """Returns whether a process and those that descend from it are few, and use little memory.

    The rlimits of a process hold for it alone, and root may have any number of processes.
    """
    found, used = [root], 0
    for process in found:  # which grows
        with suppress(OSError, ValueError):
            folder = Path("/proc") / str(process)
            for children in folder.glob("task/*/children"):
                found += map(int, children.read_text().split())
            used += int((folder / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return len(found) <= PROCESSES and used <= MEMORY


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
