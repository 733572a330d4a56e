"""Runs outrider, and kills its process when it is about to write for the Nth time.

python killed.py N COMMAND ...
"""

import os
import signal
import sys
from typing import Any

from outrider.cli import main as cli

inner, left = os.fsync, [int(sys.argv.pop(1))]


def fsync(*arguments: Any) -> None:
    left[0] -= 1
    if left[0] == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    inner(*arguments)


os.fsync = fsync
cli.main()
