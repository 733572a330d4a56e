"""The native library, in C: compiled on its first use for the processor that it runs on."""

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import platformdirs

from outrider.extras.cpu.cpu_features import cpu_flags

SOURCE = Path(__file__).with_name("c")
"""The folder of the source: `library.c` includes the rest."""

COMPILERS = ("cc", "gcc", "clang")
OPTIONS = ("-std=gnu11", "-O3", "-ffp-contract=fast", "-shared", "-fPIC", "-pthread")
TUNINGS = ("-march=native", "-mcpu=native")
"""Options to compile for this very processor: the first that the compiler knows is used."""

SECONDS = 120
"""The most seconds that compiling may take."""

DISABLE = "OUTRIDER_NATIVE"
"""The environment variable that switches the library off if it is set to 0."""


@cache
def library() -> ctypes.CDLL | None:
    """Returns the compiled library, or None where there is no compiler or it is switched off."""
    if os.environ.get(DISABLE) == "0":
        return None
    path = _folder() / f"native-{_key()}.so"
    try:
        if not path.exists() and not _compile(path):
            return None
        return ctypes.CDLL(str(path))
    except OSError:  # a read-only folder, or a file system that nothing may be run from
        return None


def has_tiles() -> bool:
    """Returns whether the library multiplies weights of bfloat16 on the processor's tiles (AMX)."""
    native = library()
    return native is not None and bool(native.outrider_has_tiles())


def _folder() -> Path:
    return Path(platformdirs.user_cache_path("outrider")) / "native"


def _key() -> str:
    """Returns a key of the compiled library: a hash of its source and of this kind of processor."""
    machine = " ".join([platform.platform(), platform.machine(), *sorted(cpu_flags()), *OPTIONS])
    sources = (path.read_bytes() for path in sorted(SOURCE.glob("*.[ch]")))
    return hashlib.sha256(b"".join(sources) + machine.encode()).hexdigest()[:16]


def _compile(path: Path) -> bool:
    """Compiles the library into a file, and returns whether that worked."""
    compiler = next(filter(None, map(shutil.which, COMPILERS)), None)
    if compiler is None:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    for tuning in TUNINGS:
        if _runs([compiler, *OPTIONS, tuning, str(SOURCE / "library.c"), "-o", str(scratch)]):
            scratch.replace(path)
            return True
    return False


def _runs(command: Sequence[str]) -> bool:
    try:
        subprocess.run(command, capture_output=True, timeout=SECONDS, check=True)
    except subprocess.SubprocessError:  # it failed, or took too long
        return False
    return True
