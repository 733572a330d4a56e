"""What a model's own generation config sets is obeyed as by `generate`, or named."""

from typing import Any

import pytest
import torch
from tiny.subject import written
from transformers import GenerationConfig

import outrider
from outrider.base.errors import TargetError
from outrider.contract.chance import SampledChance
from outrider.contract.sampling import Sampling
from outrider.decoding.batches.batch_target import batched
from outrider.drafters.early_exit import EarlyExit
from outrider.lab.measuring.reference import reference
from outrider.targets.defaults import own_defaults
from outrider.targets.transformers import TransformersTarget

PROMPTS = ([3, 9, 17, 9], [5, 9, 17, 3, 9, 17])
LENGTH = 16

SETTINGS: list[dict[str, Any]] = [
    {"repetition_penalty": 1.8}, {"encoder_repetition_penalty": 1.6}, {"no_repeat_ngram_size": 2},
    {"encoder_no_repeat_ngram_size": 1}, {"bad_words_ids": [[4], [9, 17], [12, 2, 5]]},
    {"sequence_bias": [[[3], 4.0], [[9, 4], -5.0]]}, {"suppress_tokens": [1, 4, 12, 30]},
    {"begin_suppress_tokens": [2, 4, 12, 30]}, {"min_length": 14, "eos_token_id": [4, 12, 18]},
    {"min_new_tokens": 9, "eos_token_id": [4, 12, 18]},
    {"exponential_decay_length_penalty": (4, 1.6)}, {"forced_eos_token_id": 6, "eos_token_id": 0},
    {"eos_token_id": [4, 12, 18]},
    {"repetition_penalty": 1.3, "no_repeat_ngram_size": 3, "min_new_tokens": 6},
]  # fmt: skip


def _model(llama: Any, settings: dict[str, Any]) -> Any:
    model = llama()
    model.generation_config = GenerationConfig(**{"eos_token_id": 1, "pad_token_id": 1} | settings)
    return model


DRAFTERS: list[tuple[Any, str]] = [
    ("prompt_lookup", "token"), ("token_recycling", "candidates"), (EarlyExit(layers=2), "token"),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(SETTINGS)), ids=["+".join(it) for it in SETTINGS])
def test_greedy_texts_are_those_of_generate(llama: Any, words: Any, number: int) -> None:
    """With each drafter in turn."""
    settings, (drafter, rule) = SETTINGS[number], DRAFTERS[number % len(DRAFTERS)]
    model = _model(llama, settings)
    expected = [written(model, prompt, max_new_tokens=LENGTH) for prompt in PROMPTS]
    target = TransformersTarget(model, words)
    how = {"verifier": rule, "drafter": drafter, "max_new_tokens": LENGTH}
    assert outrider.generate(target, PROMPTS[0], **how).tokens == expected[0]
    together = outrider.generate_together(target, PROMPTS, **how)
    assert [text.tokens for text in together] == expected
    chances = [SampledChance.seeded(0) for _ in PROMPTS]
    assert batched(target).write(PROMPTS, Sampling(), chances, LENGTH) == expected
    if settings.keys() != {"eos_token_id"}:  # or the case would show nothing
        ignored = TransformersTarget(model, words, generation_config="ignore")
        assert batched(ignored).write(PROMPTS, Sampling(), chances, LENGTH) != expected


@pytest.mark.parametrize(
    "settings",
    [
        {"encoder_repetition_penalty": 1.6, "min_new_tokens": 6},
        {"forced_bos_token_id": 7, "min_new_tokens": 4, "begin_suppress_tokens": [3, 9]},
        {"forced_eos_token_id": 1, "no_repeat_ngram_size": 2},
        {"encoder_no_repeat_ngram_size": 1, "exponential_decay_length_penalty": (3, 1.5)},
    ],
    ids="+".join,
)
def test_an_encoder_decoder_obeys_its_defaults(t5: Any, settings: Any) -> None:
    model = t5()
    model.generation_config.update(**settings)
    ids = torch.tensor(PROMPTS[:1])
    out = model.generate(ids, do_sample=False, max_new_tokens=12)[0].tolist()
    target = TransformersTarget(model)
    start, _ = target.begin(PROMPTS[0])
    length = 13 - len(start)  # a forced beginning is one of the new tokens of `generate`
    text = outrider.generate(target, PROMPTS[0], "random", max_new_tokens=length)
    assert [*start, *text.tokens] == out


def test_stop_strings_end_texts_as_those_of_a_run_do(llama: Any, words: Any) -> None:
    model = _model(llama, {"stop_strings": ["three ran", "so dog"]})
    plain, target = (
        TransformersTarget(model, words, generation_config=choice) for choice in ("ignore", "apply")
    )
    stops = model.generation_config.stop_strings
    expected = [outrider.generate(plain, prompt, stop=stops).tokens for prompt in PROMPTS]
    assert [len(tokens) for tokens in expected] == [3, 6]
    assert [outrider.generate(target, prompt).tokens for prompt in PROMPTS] == expected
    together = outrider.generate_together(target, PROMPTS)
    assert [text.tokens for text in together] == expected
    chances = [SampledChance.seeded(0) for _ in PROMPTS]
    assert batched(target).write(PROMPTS, Sampling(), chances, LENGTH) == expected
    assert reference(target, PROMPTS[0], expected[0]).ended


def test_a_text_is_measured_with_the_defaults(llama: Any, words: Any) -> None:
    target = TransformersTarget(_model(llama, {"repetition_penalty": 1.8}), words)
    text = outrider.generate(target, PROMPTS[0], max_new_tokens=LENGTH).tokens
    assert reference(target, PROMPTS[0], text).logits.argmax(-1).tolist() == text


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("guidance_scale", 2.0), ("repetition_penalty", 1.1), ("stop_strings", ["."]),
        ("num_beams", 4), ("max_time", 5.0), ("token_healing", True),
    ],
)  # fmt: skip
def test_a_default_that_is_not_in_force_is_named(
    llama: Any, words: Any, capsys: Any, name: str, value: Any
) -> None:
    model = _model(llama, {name: value})
    assert own_defaults(model.generation_config) == {name: value}
    TransformersTarget(model, words, generation_config="ignore")
    line = " ".join(capsys.readouterr().err.split())
    assert f"defaults of the model not in force: {name}={value!r}" in line
    TransformersTarget(model, words)
    line = " ".join(capsys.readouterr().err.split())
    is_in_force = name in ("repetition_penalty", "stop_strings")
    where = "in force" if is_in_force else "not in force"
    assert line == f"defaults of the model {where}: {name}={value!r}"


@pytest.mark.parametrize(
    ("name", "value"), [("repetition_penalty", "x"), ("exponential_decay_length_penalty", (2,))]
)
def test_a_default_that_is_none_is_one_line(llama: Any, name: str, value: Any) -> None:
    target = TransformersTarget(_model(llama, {"eos_token_id": 1, name: value}))
    with pytest.raises(TargetError, match=f"^default of the model {name}=.* raised "):
        outrider.generate(target, PROMPTS[0])


def test_stop_strings_need_a_tokenizer(llama: Any, capsys: Any) -> None:
    TransformersTarget(_model(llama, {"stop_strings": ["."]}))
    assert "not in force: stop_strings=['.']" in capsys.readouterr().err


def test_neutral_defaults_are_not_named(llama: Any, words: Any, capsys: Any) -> None:
    assert own_defaults(None) == own_defaults(GenerationConfig()) == {}
    assert own_defaults(GenerationConfig(no_repeat_ngram_size=-1, min_length=-1)) == {}
    TransformersTarget(llama(), words)
    assert "in force" not in capsys.readouterr().err


def test_defaults_in_force_are_part_of_the_fingerprint(llama: Any, words: Any) -> None:
    model = _model(llama, {"repetition_penalty": 1.1})
    applied, ignored = (
        TransformersTarget(model, words, generation_config=choice).fingerprint()
        for choice in ("apply", "ignore")
    )
    assert applied != ignored
