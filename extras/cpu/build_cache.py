"""Build cache: compiled libraries on disk, loaded only if they are whole and this user's own."""

import ctypes
import hashlib
import json
import os
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import platformdirs
from filelock import Timeout

from outrider.base.folders import replacing, write_whole
from outrider.base.json_values import json_of
from outrider.base.locks import hold
from outrider.extras.cpu.compiler import SECONDS, BuildError, compile_library
from outrider.extras.cpu.private import make_private, private, read_private

RETRY = 3600
"""After this many seconds a compiler that failed is tried again."""


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
