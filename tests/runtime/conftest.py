"""The native library for processors that have few special instructions."""

import ctypes
import platform
from pathlib import Path

import pytest

from outrider.runtime import native

BASELINES = {"x86_64": "-march=x86-64-v3"}
"""The option to compile for an older processor, by kind."""


@pytest.fixture(scope="session")
def older_library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    path = tmp_path_factory.mktemp("native") / "library.so"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "OPTIONS", (*native.OPTIONS, "-O1"))  # which compiles faster
        patch.setattr(native, "TUNINGS", (BASELINES.get(platform.machine(), "-O1"),))
        assert native._compile(Path(native.__file__).with_name("native.c").read_bytes(), path)
    return ctypes.CDLL(str(path))
