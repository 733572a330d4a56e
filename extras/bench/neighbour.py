"""The neighbour: a process that keeps one core busy beside a bench."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

SPIN = "while True: pass"


@contextmanager
def neighbour() -> Iterator[subprocess.Popen[bytes]]:
    """Keeps one core busy, as another program on the same machine would."""
    process = subprocess.Popen([sys.executable, "-c", SPIN])
    try:
        yield process
    finally:
        process.kill()
        process.wait()
