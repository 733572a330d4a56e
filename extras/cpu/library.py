"""The native library, in C: compiled on its first use for this processor, and kept on disk."""

import ctypes
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, final

import platformdirs
from filelock import Timeout

from outrider.base.contents import json_of
from outrider.base.errors import OutriderError
from outrider.base.folders import hold, replacing, write_whole
from outrider.extras.cpu.private import make_private, private, read_private
from outrider.extras.cpu.processor import cpu_flags

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

RETRY = 3600
"""After this many seconds a compiler that failed is tried again."""

DISABLE = "OUTRIDER_NATIVE"
"""The environment variable that switches the library off if it is set to 0."""


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

    Raises `BuildError` if the compiler fails or takes too long, or the library can't be loaded.
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
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise BuildError(f"{command[0]} took more than {SECONDS:g} seconds") from error
    except OSError as error:
        raise BuildError(f"{command[0]}: {error.strerror}") from error
    return done.returncode == 0


def folders() -> list[Path]:
    """Returns where libraries may be kept: in the user's cache, or else in the temporary folder."""
    user = os.getuid()
    return [
        Path(platformdirs.user_cache_path("outrider")) / "native",
        Path(tempfile.gettempdir()) / f"outrider-native-{user}",
    ]


def kept_or_built(folder: Path, key: str, compiler: Path | None) -> ctypes.CDLL:
    """Returns the library of a key, from the folder, or compiled into it.

    A library is loaded if nobody else can write to it and its hash is the one in its name. Any
    other is deleted, and built again by one process while others wait.

    Raises:
        BuildError: there is no compiler, or it failed now or within the last hour.
        OSError: the folder can't be trusted or written to, or nothing may be run from it.
    """
    with suppress(OSError):  # what others could write to is closed first
        if (kept := _load(folder, key)) is not None:
            return kept
    if compiler is None:
        raise BuildError("it needs a C compiler")
    make_private(folder)
    try:
        lock = hold(folder / f"{key}.lock", 2 * SECONDS)
    except Timeout as error:
        raise BuildError(f"another process has been compiling it for {2 * SECONDS:g} s") from error
    try:
        if (kept := _load(folder, key)) is None:
            _build(folder, key, compiler)
            kept = _load(folder, key)
    finally:
        lock.release()
    if kept is None:
        raise OSError(f"{folder}: nothing can be loaded from it")
    return kept


def _load(folder: Path, key: str) -> ctypes.CDLL | None:
    """Returns the library of a key, None if there is no sound one; others are deleted."""
    with private(folder) as here:
        for path in sorted(here.glob(f"{key}-*.so")):
            with suppress(OSError):
                if path.name == _name(key, read_private(path)):
                    return ctypes.CDLL(str(path))
            with suppress(OSError):
                path.unlink()
    return None


def _build(folder: Path, key: str, compiler: Path) -> None:
    """Compiles a library into the folder, unless this compiler has just failed to."""
    note = folder / f"{key}.failed"
    identity: list[str | float] = [str(compiler), compiler.stat().st_mtime]
    _raise_failure(note, identity)
    with tempfile.TemporaryDirectory(prefix=".build-", dir=folder) as scratch:
        out = Path(scratch) / "library.so"
        try:
            compile_library(compiler, out)
        except BuildError as error:
            write_whole(note, json.dumps({"compiler": identity, "reason": str(error)}))
            raise
        content = out.read_bytes()
    with replacing(folder / _name(key, content)) as new:
        new.write_bytes(content)
        new.chmod(0o600)
    note.unlink(missing_ok=True)


def _raise_failure(note: Path, identity: list[str | float]) -> None:
    """Raises `BuildError` if a note says that this compiler has failed within the last hour."""
    try:
        age = time.time() - note.stat().st_mtime
        kept = json_of(read_private(note))
        reason, is_same = kept["reason"], kept["compiler"] == identity
    except (OSError, ValueError, LookupError, TypeError):
        return
    if is_same and 0 <= age < RETRY:
        raise BuildError(f"{reason}; it is tried again after an hour, or without {note}")


def _name(key: str, content: bytes) -> str:
    return f"{key}-{hashlib.sha256(content).hexdigest()[:16]}.so"


@final
@dataclass(frozen=True, slots=True)
class Found:
    """The library, or the reason why there is none."""

    library: ctypes.CDLL | None
    reason: str = ""


def library() -> Any:
    """Returns the compiled library, or None where there is no compiler or it is switched off."""
    return _found().library


def missing() -> str:
    """Returns why there is no library; empty if there is one."""
    return _found().reason


def has_tiles() -> bool:
    """Returns whether the library multiplies weights of bfloat16 on the processor's tiles (AMX)."""
    native = library()
    return native is not None and bool(native.outrider_has_tiles())


def find() -> Found:
    """Returns the library from the disk, or compiles it."""
    if os.environ.get(DISABLE) == "0":
        return Found(None, f"{DISABLE}=0 switches it off")
    if os.name != "posix":
        return Found(None, "it is for Linux and macOS")
    key, compiler, reasons = f"native-{_key()}", find_compiler(), list[str]()
    for folder in folders():
        try:
            return Found(kept_or_built(folder, key, compiler))
        except BuildError as error:
            return Found(None, str(error))
        except OSError as error:  # another user's folder, a read-only one, or one without programs
            reasons.append(str(error))
    return Found(None, "; ".join(reasons))


_found = cache(find)


def _key() -> str:
    """Returns a key of the compiled library: a hash of its source and of this kind of processor."""
    machine = " ".join([platform.platform(), platform.machine(), *sorted(cpu_flags()), *OPTIONS])
    sources = (path.read_bytes() for path in sorted(SOURCE.glob("*.[ch]")))
    return hashlib.sha256(b"".join(sources) + machine.encode()).hexdigest()[:16]
