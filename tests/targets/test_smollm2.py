"""The embedded target is the real model."""

import json

import pytest
from tiny.drafters import tokens_of
from tiny.subject import written

from outrider import decode
from outrider.plugins.registry import make
from outrider.targets.smollm2 import folder


def test_the_real_weights_write_the_text_of_transformers(request: pytest.FixtureRequest) -> None:
    target = request.getfixturevalue("smollm2")  # of that name is the module here
    assert target.vocab_size == 49152
    assert target.eos == {2}
    prompt = target.encode("Name three rivers.", chat=True)
    text = written(target.model, prompt, max_new_tokens=16)
    rounds = decode(
        target,
        make("drafter", "prompt_lookup"),
        make("verifier", "token"),
        prompt,
        max_new_tokens=16,
    )
    assert tokens_of(rounds) == text


def test_the_folder_is_plain_safetensors() -> None:
    made = folder()
    assert (made / "model.safetensors").stat().st_size > 500_000_000
    config = json.loads((made / "config.json").read_text())
    assert "quantization_config" not in config
    assert config["dtype"] == "float32"
    assert (made / "chat_template.jinja").exists()
    assert not (made / "adapter_config.json").exists()
