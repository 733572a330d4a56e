"""`outrider serve-config`: a line that a shell reads back, or why there is none."""

import json
import shlex
from typing import Any

import pytest

TARGET = ("target=transformers", "target.model=/models/my model")


def test_a_drafter_of_tokens_goes_by_its_config(run: Any) -> None:
    status, out, err = run("serve-config", *TARGET, "drafter=bigram", "drafter.order=3", "gamma=4")
    assert status == 0, err
    variable, *words = shlex.split(out)
    name, _, node = variable.partition("=")
    assert name == "OUTRIDER_DRAFTER"
    assert json.loads(node)["_target_"] == "outrider.drafters.ngram.bigram"
    assert json.loads(node)["order"] == 3
    assert words[:4] == ["vllm", "serve", "/models/my model", "--speculative-config"]
    assert json.loads(words[4]) == {
        "method": "custom_class",
        "model": "outrider.serving.vllm.OutriderProposer",
        "num_speculative_tokens": 4,
    }


def test_an_eagle3_goes_as_vllms_own(run: Any) -> None:
    status, out, err = run("serve-config", *TARGET, "drafter=eagle3")
    assert status == 0, err
    words = shlex.split(out)
    config = json.loads(words[-1])
    assert words[0] == "vllm" and config["method"] == "eagle3"
    assert config["model"].endswith("weights/eagle3")


@pytest.mark.parametrize(
    "name", ["medusa", "small_lm", "lookahead_decoding", "bigram drafter.tree=2x1"]
)
def test_others_are_refused(name: str, run: Any) -> None:
    status, _, err = run("serve-config", *TARGET, *f"drafter={name}".split())
    assert status == 1
    assert "can't go into vLLM: expected one that needs tokens alone" in err
