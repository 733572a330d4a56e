"""A training that `kill -9` ended continues where it was, and ends with the same curve."""

import signal
from pathlib import Path
from typing import Any

import pytest
from tiny import forked

from outrider.extras.training.progress import CHECKPOINT, CURVE

HERE = Path(__file__).parent
SETTINGS = (
    "drafter=medusa", "target=transformers", "chat=false", "max_new_tokens=12", "recipe.texts=20",
    "recipe.held_out=4", "recipe.vocabulary=20", "recipe.schedule.epochs=4",
    "recipe.schedule.batch=4", "recipe.schedule.evaluate=5", "recipe.schedule.patience=99",
)  # fmt: skip


def words(model: Path, folder: Path) -> list[str]:
    settings = (f"target.model={model}", f"out={folder / 'out'}", f"hydra.run.dir={folder}")
    return ["train", *SETTINGS, *settings]


@pytest.mark.first
def test_the_curve_is_the_same(folder: Path, tmp_path: Path, run: Any) -> None:
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    assert run(*words(folder, whole))[0] == 0
    done = forked.run(HERE / "killed.py", *words(folder, broken), cwd=tmp_path)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert (broken / CHECKPOINT).is_file()
    right = (whole / CURVE).read_text()
    assert (broken / CURVE).read_text() == right.splitlines(keepends=True)[0]
    assert not (broken / "out").exists()
    assert run(*words(folder, broken))[0] == 0
    assert (broken / CURVE).read_text() == right
    for name in ("model.safetensors", "config.json"):
        assert (broken / "out" / name).read_bytes() == (whole / "out" / name).read_bytes()
