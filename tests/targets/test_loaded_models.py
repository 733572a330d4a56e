"""A loaded model is taken as people have it: alone, beside its tokenizer, in a pipeline."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from transformers import pipeline

import outrider
from outrider import ConfigError
from outrider.drafters.small_lm import SmallLM
from outrider.targets.tabular import TabularTarget
from outrider.targets.transformers import TransformersTarget

PROMPT = "the cat sat"


def piped(model: Any, tokenizer: Any) -> Any:
    return pipeline("text-generation", model=model, tokenizer=tokenizer)


FORMS = {"pair": lambda *both: both, "list": lambda *both: [*both], "pipeline": piped}


def text(target: Any, drafter: Any = "none", prompt: Any = PROMPT) -> str:
    return outrider.generate(target, prompt, drafter, max_new_tokens=8).text


@pytest.mark.parametrize("form", FORMS)
def test_a_loaded_model_with_its_tokenizer_is_a_target(llama: Any, words: Any, form: str) -> None:
    model = llama()
    expected = text(TransformersTarget(model, words))
    given = FORMS[form](model, words)
    assert text(given) == expected
    (together,) = outrider.generate_together(given, [PROMPT], "none", max_new_tokens=8)
    assert together.text == expected


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("vocabulary", ["same", "shared", "text"])
def test_a_loaded_model_with_its_tokenizer_drafts(
    llama: Any, words: Any, form: str, vocabulary: str
) -> None:
    target = TransformersTarget(llama(), words)
    given = FORMS[form](llama(seed=1, vocab_size=40), words)
    made = {"drafter": "small_lm", "model": given, "vocabulary": vocabulary}
    assert text(target, made) == text(target)


def test_a_loaded_model_alone_takes_ids(llama: Any, words: Any) -> None:
    model = llama()
    ids = words(PROMPT, return_tensors="pt")
    assert outrider.generate(model, ids, "none", max_new_tokens=3).tokens
    with pytest.raises(ConfigError, match=r"no tokenizer; it has one if given as \(model, tokeniz"):
        text(model)
    with pytest.raises(ConfigError, match=r"no tokenizer$"):
        text(TabularTarget())


@pytest.mark.parametrize(
    "given",
    [None, 2024, ("a", "b"), torch.nn.Linear(2, 2), SimpleNamespace(tokenizer=print)],
    ids=lambda given: type(given).__name__,
)
def test_a_thing_that_is_no_model_is_one_line(given: Any) -> None:
    name = "2024" if given == 2024 else type(given).__name__
    line = rf"model={name}: expected a name, a loaded model, or \(model, tokenizer\)$"
    with pytest.raises(ConfigError, match=f"^target.{line}"):
        outrider.generate(given, PROMPT)
    for vocabulary in ("same", "shared") if given is not None else ():
        drafter = SmallLM(given, vocabulary=vocabulary)
        with pytest.raises(ConfigError, match=f"^drafter.{line}"):
            drafter.bind(TabularTarget())
