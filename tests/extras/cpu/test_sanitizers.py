"""The C library stays in its memory, and does nothing that C leaves undefined."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from outrider.extras.cpu.library import find_compiler

TESTS = (
    *("test_quantized.py", "test_packed_linear.py", "test_native_layer.py", "test_stored.py"),
    "test_library.py",
)
SOME = (
    "products_are_those or products_in or leaves_no or native_layer or same_logits or of_a_tree"
    " or file_writes and Q4_0"
)
"""What runs all kinds of products, and whole passes, on this processor and as on older ones."""

CHECKS = "-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer -O0"


def test_the_tests_of_the_library_pass_under_sanitizers(tmp_path: Path) -> None:
    compiler = find_compiler()
    assert compiler is not None
    runtimes = [_runtime(compiler, name) for name in ("libasan.so", "libubsan.so")]
    if None in runtimes:
        pytest.skip("the compiler has no sanitizers")
    checking = tmp_path / "cc"  # stands before the compiler, which runs without sanitizers itself
    checking.write_text(f'#!/bin/sh\nunset LD_PRELOAD\nexec {compiler} "$@" {CHECKS}\n')
    checking.chmod(0o700)
    environment = {
        **os.environ,
        "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}",
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "LD_PRELOAD": " ".join(map(str, runtimes)),
        "ASAN_OPTIONS": "detect_leaks=0",  # Python's own
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }
    here = Path(__file__).parent
    # Without the fixtures of all tests, whose imports would take most of the time.
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    command += ["--confcutdir", str(here), "-k", SOME]
    done = subprocess.run(
        [*command, *(str(here / name) for name in TESTS)],
        env=environment,
        cwd=here.parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    assert list((tmp_path / "cache" / "outrider" / "native").glob("*.so"))


def _runtime(compiler: Path, name: str) -> Path | None:
    command = [str(compiler), f"-print-file-name={name}"]
    path = Path(subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip())
    return path if path.is_absolute() else None
