"""`outrider serve-config` prints a line for a shell, or says why it can't."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

TARGET = ("target=transformers", "target.model=/models/my model")


def test_a_drafter_of_tokens_is_passed_as_its_config(run: Any) -> None:
    out = run.done("serve-config", *TARGET, "drafter=bigram", "drafter.order=3", "gamma=4")
    patch, variable, *words = shlex.split(out)
    assert patch == "OUTRIDER_VLLM_PATCH=1"
    name, _, node = variable.partition("=")
    assert name == "OUTRIDER_DRAFTER"
    assert json.loads(node)["_target_"] == "outrider.drafters.ngram.bigram"
    assert json.loads(node)["order"] == 3
    assert words[:4] == ["vllm", "serve", "/models/my model", "--speculative-config"]
    served = {"method": "custom_class", "model": "outrider.extras.serving.vllm.OutriderProposer"}
    assert json.loads(words[4]) == served | {"num_speculative_tokens": 4}


def test_a_medusa_is_written_in_vllms_format(run: Any, folder: Path, tmp_path: Path) -> None:
    drafter = ("drafter=medusa", "drafter.path=untrained", "gamma=3", f"hydra.run.dir={tmp_path}")
    out = run.done("serve-config", TARGET[0], f"target.model={folder}", *drafter)
    config = json.loads(shlex.split(out)[-1])
    weights = tmp_path / "drafter"
    assert config == {"method": "medusa", "model": str(weights), "num_speculative_tokens": 3}
    assert json.loads((weights / "config.json").read_text())["num_heads"] == 3


@pytest.mark.parametrize(
    ("asked", "line"),
    [
        ("eagle", "Eagle can't go into vLLM: expected one that needs only tokens, or"),
        ("lookahead_decoding", "can't go into vLLM: expected one that writes chains"),
        ("bigram verifier=block", "verifier: Block can't go into vLLM: expected token, its own"),
    ],
)
def test_other_drafters_are_refused(asked: str, line: str, run: Any) -> None:
    assert line in run.refused("serve-config", *TARGET, *f"drafter={asked}".split())
