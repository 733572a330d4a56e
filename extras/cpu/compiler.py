"""Compiler: makes the native library with the system's C compiler, and tries it before its use."""

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from outrider.base.errors import OutriderError

SOURCE = Path(__file__).with_name("c")
"""The folder of the source: `library.c` includes the rest."""

COMPILERS = ("cc", "gcc", "clang")
OPTIONS = ("-std=gnu11", "-O3", "-ffp-contract=fast", "-shared", "-fPIC", "-pthread")
TUNINGS = ("-march=native", "-mcpu=native")
"""Options to compile for this very processor: the first that the compiler knows is used."""

SECONDS = 120.0
"""The most seconds that compiling may take."""

TRIAL = "import ctypes, sys; ctypes.CDLL(sys.argv[1]).outrider_has_tiles()"
"""Runs with a new library in a process of its own, which a bad one may end."""


class BuildError(OutriderError):
    """There is no library: the compiler is missing, fails, hangs, or makes nonsense."""


def find_compiler() -> Path | None:
    """Returns the system's C compiler, None where there is none."""
    found = next(filter(None, map(shutil.which, COMPILERS)), None)
    return None if found is None else Path(found)


def compile_library(
    compiler: Path, out: Path, tunings: Sequence[str] = TUNINGS, options: Sequence[str] = OPTIONS
) -> None:
    """Compiles the library into a file, and tries it.

    Raises:
        BuildError: the compiler fails or takes too long, or the library can't be loaded.
    """
    for tuning in tunings:
        command = [str(compiler), *options, tuning, str(SOURCE / "library.c"), "-o", str(out)]
        if _runs(command) and out.is_file():
            break
    else:
        raise BuildError(f"{compiler} can't compile it")
    if not _runs([sys.executable, "-I", "-S", "-c", TRIAL, str(out)]):
        raise BuildError(f"{compiler} has made a library that can't be loaded")


def _runs(command: Sequence[str]) -> bool:
    """Returns whether a command succeeds; raises `BuildError` if it takes too long."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise BuildError(f"{command[0]} took more than {SECONDS:g} seconds") from error
    except OSError as error:
        raise BuildError(f"{command[0]}: {error.strerror}") from error
    return done.returncode == 0
