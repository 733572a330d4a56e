"""The native library, in C: compiled on its first use for the processor that it runs on."""

import ctypes
import hashlib
import os
import platform
from dataclasses import dataclass
from functools import cache
from typing import final

from outrider.extras.cpu.build_cache import folders, kept_or_built
from outrider.extras.cpu.compiler import OPTIONS, SOURCE, BuildError, find_compiler
from outrider.extras.cpu.cpu_features import cpu_flags

DISABLE = "OUTRIDER_NATIVE"
"""The environment variable that switches the library off if it is set to 0."""


@final
@dataclass(frozen=True, slots=True)
class Found:
    """The library, or the reason why there is none."""

    library: ctypes.CDLL | None
    reason: str = ""


def library() -> ctypes.CDLL | None:
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
