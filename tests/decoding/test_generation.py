"""One call from a prompt to its text."""

import copy
import re
from collections import Counter
from functools import partial
from inspect import signature
from typing import Any, Self

import pytest
from tiny.tokenizer_kinds import tokenizer_of

import outrider
from outrider import (
    ConfigError,
    Context,
    Drafter,
    DrafterError,
    Fixed,
    Pen,
    Sampling,
)
from outrider.base.errors import OTHER_NAMES
from outrider.decoding.decode import decode
from outrider.plugins.parts import make
from outrider.plugins.registry import installed
from outrider.targets.tabular import TabularTarget
from outrider.verifiers.token import Token

TARGET = TabularTarget(6)


@pytest.mark.parametrize(
    "parts",
    [
        {"drafter": "bigram", "verifier": "token", "policy": "fixed", "sampling": "nucleus"},
        {
            "drafter": {"_target_": "outrider.drafters.ngram.bigram"},
            "verifier": {"verifier": "token"},
            "policy": {"policy": "fixed"},
            "sampling": {"temperature": 1.0, "top_p": 0.9},
        },
        {
            "drafter": {"drafter": "bigram"},
            "verifier": {"_target_": "outrider.verifiers.token.Token"},
            "policy": None,
            "sampling": {"sampling": "standard", "top_p": 0.9},
        },
    ],
    ids=["names", "settings and places", "mappings"],
)
def test_parts_are_taken_by_name_as_mappings_and_as_instances(parts: dict[str, Any]) -> None:
    made = {"drafter": make("drafter", "bigram"), "verifier": Token(), "policy": Fixed()}
    expected = [
        round.tokens
        for round in decode(
            TARGET, tokens=[0], max_new_tokens=10, sampling=Sampling(1.0, top_p=0.9, seed=3), **made
        )
    ]
    by_name = outrider.generate(TARGET, [0], max_new_tokens=10, seed=3, **parts)
    assert [round.tokens for round in by_name.rounds] == expected
    assert by_name.counts.emitted == 10
    assert by_name.stop == "max_new_tokens"
    assert by_name.seconds["total"] >= sum(by_name.seconds[x] for x in ("draft", "score"))


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"chatt": True}, "chatt: did you mean 'chat'?"),
        ({"temperature": 0.7}, "temperature: here it is sampling.temperature; there are"),
        ({"sampling": {"temprature": 1}}, "sampling.temprature: did you mean 'temperature'?"),
        ({"prompt": ["a", "b"]}, "expected one prompt; outrider.generate_together takes several"),
    ],
)
def test_an_unknown_option_is_refused_with_the_one_to_write(
    options: dict[str, Any], line: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        outrider.generate(TARGET, **{"prompt": [0]} | options)
    assert line in str(caught.value)
    assert " tokens," not in str(caught.value)  # of the loop alone


def test_every_name_of_another_library_is_a_setting_here() -> None:
    known = {*signature(outrider.generate).parameters, *signature(decode).parameters}
    for settings in OTHER_NAMES.values():
        chosen: dict[str, Any] = {"sampling": Sampling}
        for word in settings.split():
            name, _, value = word.partition("=")
            role, _, inner = name.partition(".")
            assert role in known
            if value and role != "sampling":
                chosen[role] = installed().find(role, value).factory
            assert not inner or inner in signature(chosen[role]).parameters


def test_a_text_has_a_new_seed_that_repeats_it() -> None:
    """A seed that is given, with the sampling or beside it, is kept, and a greedy text has none."""
    call = partial(outrider.generate, TARGET, [0], max_new_tokens=20)
    for sampling in ("standard", {"temperature": 1.0}, Sampling(1.0)):
        one, other = call(sampling=sampling), call(sampling=sampling)
        assert one.seed != other.seed
        assert one.tokens != other.tokens
        assert call(sampling=sampling, seed=one.seed).tokens == one.tokens
    assert call(sampling=Sampling(1.0, seed=7)).seed == call(sampling="standard", seed=7).seed == 7
    assert call().seed is None
    together = outrider.generate_together(TARGET, [[0], [1]], sampling="standard")
    assert together[0].seed == together[1].seed is not None


def test_a_notebook_shows_the_text_in_colours_above_its_counts() -> None:
    tokenizer = tokenizer_of("llama")
    target = TabularTarget(len(tokenizer), order=1, seed=3)
    target.tokenizer = tokenizer
    text = outrider.generate(target, [0], "bigram", sampling="standard", seed=5, max_new_tokens=20)
    counts = text.counts
    said = f"{counts.emitted} tokens in {counts.rounds} calls"
    assert repr(text).startswith(f"Generation({text.text!r}, {said}") and "seed=5" in repr(text)
    page = text._repr_html_()
    assert said in page
    plain = re.sub(r' style="[^"]*"', "", page)  # as GitHub shows it, which keeps these tags
    tags = {"accepted": "ins", "recovered": "b", "bonus": "i", "plain": "span"}
    origins = Counter(origin for round in text.rounds for origin in round.origins)
    for origin, tag in tags.items():
        assert plain.count(f"<{tag}>") == origins[origin] + (origin != "plain")


class Late(Drafter):
    """Fails at its fourth draft."""

    calls = 0

    def open(self) -> Self:
        return copy.copy(self)

    def propose(self, context: Context, pen: Pen) -> None:
        self.calls += 1
        if self.calls == 4:
            raise RuntimeError("late")


def test_a_failure_hands_over_finished_texts() -> None:
    sampling, line = Sampling(temperature=1.0), "Late raised RuntimeError: late"
    with pytest.raises(DrafterError, match=line) as caught:
        outrider.generate(TARGET, [0], Late(), sampling=sampling)
    assert len(caught.value.generation.tokens) == 3  # type: ignore[attr-defined]
    with pytest.raises(DrafterError, match=line) as caught:
        outrider.generate_together(TARGET, [[0], [1]], Late(), sampling=sampling)
    kept = caught.value.generations  # type: ignore[attr-defined]
    assert [len(generation.tokens) for generation in kept] == [3, 3]


def test_an_id_can_end_a_text() -> None:
    tokenizer = tokenizer_of("llama")
    target = TabularTarget(len(tokenizer), order=1, seed=3)
    target.tokenizer = tokenizer
    whole = outrider.generate(target, [0], "bigram", max_new_tokens=20)
    token = whole.tokens[3]
    text = outrider.generate(target, [0], "bigram", stop_token_ids=[token], max_new_tokens=20)
    assert text.tokens == whole.tokens[: whole.tokens.index(token) + 1]
    assert text.stop == "stop_token"
    (together,) = outrider.generate_together(
        target, [[0]], "bigram", stop_token_ids=[token], max_new_tokens=20
    )
    assert together.tokens == text.tokens
