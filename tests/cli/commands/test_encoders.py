"""The commands with an encoder-decoder as target: what they do, and what they refuse."""

import json
from pathlib import Path
from typing import Any

import pytest

from outrider import ConfigError, TargetError
from outrider.extras.bench.ours import start
from outrider.plugins.config import compose
from outrider.plugins.reading import plain_values
from outrider.targets.transformers import TransformersTarget


@pytest.fixture(scope="module")
def t5_folder(t5: Any, words: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny-t5")
    t5().save_pretrained(folder)
    words.save_pretrained(folder)
    return folder


def test_a_folder_of_either_kind_is_loaded(t5_folder: Path, folder: Path, tmp_path: Path) -> None:
    assert "source" in TransformersTarget(str(t5_folder)).offers
    assert "source" not in TransformersTarget(str(folder)).offers
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "whisper"}))
    with pytest.raises(TargetError, match="WhisperConfig is of no kind that reads and writes text"):
        TransformersTarget(str(tmp_path))


def test_no_drafter_is_trained_on_an_encoder_decoder(run: Any, t5_folder: Path) -> None:
    given = ("target=transformers", f"target.model={t5_folder}", "drafter=medusa")
    complaint = run.refused("train", *given)
    assert "'T5ForConditionalGeneration': expected a decoder-only model to learn from" in complaint


def test_the_bench_refuses_an_encoder_decoder(t5_folder: Path) -> None:
    given = ["target=transformers", f"target.model={t5_folder}", "drafter=prompt_lookup"]
    with pytest.raises(ConfigError, match="expected a decoder-only model"):
        start(plain_values(compose("bench", given)))
