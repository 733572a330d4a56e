"""A training that `kill -9` ended continues where it was, and ends with the same curve."""

import time
from pathlib import Path
from typing import Any

import pytest
from tiny import forked

from outrider.extras.training.progress import CHECKPOINT, CURVE

SETTINGS = (
    "drafter=medusa",
    "target=transformers",
    "chat=false",
    "max_new_tokens=12",
    "recipe.texts=60",
    "recipe.held_out=4",
    "recipe.vocabulary=20",
    "recipe.schedule.epochs=30",
    "recipe.schedule.batch=4",
    "recipe.schedule.evaluate=10",
    "recipe.schedule.patience=99",
)


def words(model: Path, folder: Path) -> list[str]:
    settings = (f"target.model={model}", f"out={folder / 'out'}", f"hydra.run.dir={folder}")
    return ["train", *SETTINGS, *settings]


@pytest.mark.first
def test_the_curve_is_the_same(folder: Path, tmp_path: Path, run: Any) -> None:
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    assert run(*words(folder, whole))[0] == 0
    process = forked.start("-m", "outrider", *words(folder, broken), cwd=tmp_path)
    deadline = time.monotonic() + 300
    while not (broken / CHECKPOINT).is_file():
        assert process.is_alive() and time.monotonic() < deadline
        time.sleep(0.01)
    process.kill()
    process.join()
    before = (broken / CURVE).read_text() if (broken / CURVE).is_file() else ""
    right = (whole / CURVE).read_text()
    assert len(before.splitlines()) < len(right.splitlines())  # it was killed before the end
    assert not (broken / "out").exists()
    assert run(*words(folder, broken))[0] == 0
    assert (broken / CURVE).read_text() == right
    for name in ("model.safetensors", "config.json"):
        assert (broken / "out" / name).read_bytes() == (whole / "out" / name).read_bytes()
