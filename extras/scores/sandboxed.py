"""Started by `sandbox`: reads a job, limits this process, and runs the job's code.

It runs by its path, without Outrider, and with the standard library alone.
"""

import ctypes
import json
import os
import resource
import sys

CREATE_RULESET, RESTRICT_SELF, NO_NEW_PRIVILEGES = 444, 446, 38
"""Linux's numbers of two system calls of Landlock, and of what `prctl` sets."""

WRITING = 1 << 1 | sum(1 << right for right in range(4, 13))
"""Landlock's rights to write to files, and to remove and make files and folders."""

TRUNCATING, FIRST_TO_TRUNCATE = 1 << 14, 3
"""Its right to truncate files, and the first version that has it."""

TCP, FIRST_WITH_TCP = 1 << 0 | 1 << 1, 4
"""Its rights to bind and to connect, and the first version that has them."""

OUTSIDE, FIRST_WITH_OUTSIDE = 1 << 0 | 1 << 1, 6
"""Abstract sockets and signals of processes outside, and the first version that bars them."""


def main() -> None:
    """Runs the code that stdin holds, and writes the token to the pipe if it ends by itself."""
    job = json.load(sys.stdin)
    if sys.platform == "linux":
        deny_changes()
    for kind, limit in job["limits"]:
        resource.setrlimit(kind, (limit, limit))
    exec(compile(job["code"], "answer.py", "exec"), {"__name__": "answer"})
    os.write(job["pipe"], job["token"].encode())


def deny_changes() -> None:
    """Denies this process every change of files from now on, if the kernel has Landlock.

    Newer kernels deny TCP and signals to other processes too, which counts without namespaces.
    """
    library = ctypes.CDLL(None)
    version = library.syscall(CREATE_RULESET, None, 0, 1)
    if version < 1:
        return
    files = WRITING | TRUNCATING * (version >= FIRST_TO_TRUNCATE)
    denied = [files, TCP * (version >= FIRST_WITH_TCP), OUTSIDE * (version >= FIRST_WITH_OUTSIDE)]
    # A kernel takes zeros at the end of a structure that it knows a shorter form of.
    rights = (ctypes.c_uint64 * len(denied))(*denied)
    rules = library.syscall(CREATE_RULESET, ctypes.byref(rights), ctypes.sizeof(rights), 0)
    library.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    library.syscall(RESTRICT_SELF, rules, 0)


if __name__ == "__main__":
    main()
