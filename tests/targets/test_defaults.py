"""What a model's own generation config sets is named where it is not obeyed."""

from typing import Any

import pytest
from transformers import GenerationConfig

from outrider.targets.defaults import own_defaults
from outrider.targets.transformers import TransformersTarget


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("repetition_penalty", 1.1),
        ("no_repeat_ngram_size", 3),
        ("bad_words_ids", [[3]]),
        ("suppress_tokens", [4]),
        ("begin_suppress_tokens", [4]),
        ("min_new_tokens", 5),
        ("stop_strings", ["."]),
    ],
)
def test_a_default_is_named_at_load(
    llama: Any, words: Any, capsys: Any, name: str, value: Any
) -> None:
    model = llama()
    model.generation_config = GenerationConfig(eos_token_id=1, **{name: value})
    assert own_defaults(model.generation_config) == {name: value}
    TransformersTarget(model, words)
    line = " ".join(capsys.readouterr().err.split())
    assert f"defaults of the model are not in force: {name}={value!r}" in line


def test_neutral_defaults_are_not_named(llama: Any, words: Any, capsys: Any) -> None:
    assert own_defaults(None) == own_defaults(GenerationConfig()) == {}
    TransformersTarget(llama(), words)
    assert "not in force" not in capsys.readouterr().err
