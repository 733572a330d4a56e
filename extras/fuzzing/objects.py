"""Random Python objects at every entry of the API, and as the answers of parts."""

import inspect
from collections.abc import Callable, Mapping
from contextlib import chdir
from functools import cache, partial
from tempfile import TemporaryDirectory
from typing import Any

import torch
from hypothesis import strategies as st

from outrider.constraints.guidance import grammar, json_schema, regex
from outrider.constraints.penalties import Penalties
from outrider.contract.sampling import Sampling
from outrider.decoding.decode import decode
from outrider.decoding.generation import generate, generate_together
from outrider.extras.beams.speculation import beam_search
from outrider.extras.fuzzing.answers import ANSWERS, PEN, Draws, answer, pen, verdict
from outrider.extras.fuzzing.values import LENGTH, check_tokens, made, small_target, values
from outrider.plugins.config import build, compose
from outrider.plugins.registry import installed, make

OPTIONS = (
    *("prompt", "drafter", "verifier", "chat", "gamma", "budget", "sampling", "policy", "chance"),
    *("number", "max_new_tokens", "stops", "stop_token_ids", "constraint", "draft_timeout"),
    *("logprobs", "misspelt"),
)
TOGETHER = ("prompts", "batch_size", "policies", "chances", "constraints", "stops")
DECODE = {"target": 0, "drafter": 1, "verifier": 2, "tokens": 3}
BEAMS = ("prompt", "drafter", "gamma", "length_penalty", "early_stopping", "chat", "target")
SAMPLING = ("temperature", "top_k", "top_p", "min_p", "seed")
PENALTIES = ("repetition_penalty", "presence_penalty", "frequency_penalty", "logit_bias")
PARTS = ("drafter", "verifier", "policy")
"""The roles whose every setting is tried."""


def run_object(entry: str, value: Any) -> None:
    """Hands an object over at an entry, "generate.gamma" for example, and checks the text."""
    group, _, name = entry.partition(".")
    with TemporaryDirectory() as folder, chdir(folder):  # a policy writes what it has learned
        GROUPS[group](name, made(value))


def _generate(name: str, value: Any) -> None:
    options: dict[str, Any] = {"prompt": [0, 1], "max_new_tokens": 4, name: value}
    generation = generate(small_target(), options.pop("prompt"), **options)
    check_tokens(generation.tokens)
    if name not in ("prompt", "sampling", "constraint", "chance", "verifier"):
        greedy = generate(small_target(), [0, 1], "none", max_new_tokens=LENGTH).tokens
        assert generation.tokens == greedy[: len(generation.tokens)], "another text is written"


def _together(name: str, value: Any) -> None:
    options: dict[str, Any] = {"prompts": [[0, 1]], "max_new_tokens": 3, name: value}
    for generation in generate_together(small_target(), options.pop("prompts"), **options):
        check_tokens(generation.tokens)


def _decode(name: str, value: Any) -> None:
    parts = [small_target(), Draws(), make("verifier", "token"), [0, 1]]
    parts[DECODE[name]] = value
    for round in decode(*parts, max_new_tokens=3):
        check_tokens(round.tokens)


def _beams(name: str, value: Any) -> None:
    options = {"target": small_target(), "prompt": [1], "drafter": "bigram", name: value}
    for tokens in beam_search(**options, max_new_tokens=3).tokens:
        check_tokens(tokens)


def _sampling(name: str, value: Any) -> None:
    probs = Sampling(**{"temperature": 1.0, name: value}).probs(torch.arange(4.0))
    assert abs(float(probs.sum()) - 1) < 1e-5 and bool((probs >= 0).all()), "no distribution"


def _function(name: str, value: Any) -> None:
    functions: dict[str, Callable[[Any], Any]] = {
        "regex": regex,
        "grammar": grammar,
        "json_schema": json_schema,
        "compose": compose,
        "overrides": partial(compose, "generate"),
        "build": build,
    }
    functions[name](value)


def _part(name: str, value: Any) -> None:
    role, part, setting = name.split(".")
    made_part = make(role, part, **{setting: value})
    others = {"drafter": "random", role: made_part}
    check_tokens(generate(small_target(), [0, 1], max_new_tokens=3, **others).tokens)


GROUPS: Mapping[str, Callable[[str, Any], None]] = {
    "generate": _generate,
    "together": _together,
    "decode": _decode,
    "beams": _beams,
    "sampling": _sampling,
    "penalties": lambda name, value: _generate("constraint", Penalties(**{name: value})),
    "function": _function,
    "pen": pen,
    "answer": answer,
    "verdict": verdict,
    "part": _part,
}


@cache
def entries() -> tuple[str, ...]:
    """Returns the names of all entries."""
    names = {
        "generate": OPTIONS,
        "together": TOGETHER,
        "decode": tuple(DECODE),
        "beams": BEAMS,
        "sampling": SAMPLING,
        "penalties": PENALTIES,
        "function": ("regex", "grammar", "json_schema", "compose", "overrides", "build"),
        "pen": PEN,
        "answer": tuple(f"{role}.{name}" for role, names in ANSWERS.items() for name in names),
        "verdict": ("accepted", "next_token"),
        "part": tuple(_settings_of_parts()),
    }
    return tuple(f"{group}.{name}" for group, some in names.items() for name in some)


def _settings_of_parts() -> list[str]:
    return [
        f"{role}.{name}.{setting}"
        for role in PARTS
        for name, entry in installed().of(role).items()
        for setting in inspect.signature(entry.factory).parameters
    ]


def objects() -> st.SearchStrategy[dict[str, Any]]:
    """Returns the strategy for what `run_object` takes."""
    return st.fixed_dictionaries({"entry": st.sampled_from(entries()), "value": values()})
