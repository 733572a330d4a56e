"""Drafters side by side over the same questions, by either protocol."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tiny.drafters import tokens_of

from outrider import ConfigError, Drafter, Sampling, decode
from outrider.data.prompts import Prompt
from outrider.drafters.ngram import bigram
from outrider.drafters.none import NoDraft
from outrider.drafters.suffix import Suffix
from outrider.lab.measuring import trial
from outrider.lab.measuring.compare import fit, measure, questions
from outrider.lab.measuring.measurement import Measurement
from outrider.lab.measuring.variants import Settings, Variant
from outrider.policies.confidence import Confidence
from outrider.verifiers.token import Token

TWO_TURNS = Prompt("a", "chat", ("the cat sat", "and the dog ?"))
ONE_TURN = Prompt("b", "chat", ("one two three",))
SETTINGS = Settings(gamma=3, max_new_tokens=8)


def test_a_later_turn_holds_the_targets_own_answer(target: Any) -> None:
    asked = questions(target, [TWO_TURNS, ONE_TURN], SETTINGS, chat=False, answers=True)
    assert [(question.prompt, question.turn) for question in asked] == [
        ("a", 1),
        ("a", 2),
        ("b", 1),
    ]
    first, second, _ = asked
    plain = tokens_of(decode(target, NoDraft(), Token(), first.tokens, max_new_tokens=8))
    assert first.text == plain
    answer = target.tokenizer.decode(plain, skip_special_tokens=True)
    assert second.tokens == target.encode_turns(["the cat sat", answer, "and the dog ?"])
    assert all(question.text for question in asked)


def test_answers_are_written_only_on_request(target: Any) -> None:
    asked = questions(target, [TWO_TURNS, ONE_TURN], SETTINGS, chat=False, answers=False)
    assert [bool(question.text) for question in asked] == [True, False, False]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_questions_decoded_at_once_have_the_counts_of_each_alone(
    target: Any, drafters: dict[str, Drafter], temperature: float
) -> None:
    sampling = Sampling(temperature=temperature)
    alone = Settings(gamma=3, max_new_tokens=8, sampling=sampling)
    prompts = [TWO_TURNS, ONE_TURN]
    asked = questions(target, prompts, alone, chat=False, answers=False)
    variants = {name: Variant(drafter, Token()) for name, drafter in drafters.items()}
    texts = {}
    for settings in (alone, replace(alone, together=2)):
        for measurement in measure(target, variants, asked, settings, protocol="decode"):
            key = (measurement.prompt, measurement.turn, measurement.drafter)
            phases = [step.draft + step.score + step.verify for step in measurement.decoding.steps]
            assert measurement.decoding.seconds >= sum(phases) > 0
            tokens = [step.tokens for step in measurement.decoding.steps]
            assert texts.setdefault(key, tokens) == tokens
    assert len(texts) == 9


def test_settings_that_can_not_be_compared_are_refused_before_any_model_runs(target: Any) -> None:
    with pytest.raises(ConfigError, match=r"drafters=\[\]: expected at least one"):
        fit(target, {})
    with pytest.raises(ConfigError, match=r"data=\[\]: expected at least one prompt"):
        questions(target, [], SETTINGS, chat=False, answers=True)


def test_a_prompt_that_is_too_long_is_named(target: Any) -> None:
    long = Prompt("q7", "chat", ("the cat " * 200,))
    with pytest.raises(ConfigError, match="data: prompt q7, turn 1: prompt of 400 tokens"):
        questions(target, [ONE_TURN, long], SETTINGS, chat=False, answers=True)


def test_every_variant_leads_in_turn_and_is_repeated(
    target: Any, drafters: dict[str, Drafter], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Plain decoding always came first, and it alone was warmed up."""
    order: list[str] = []
    inner = trial.decoded

    def decode_noted(target: Any, variant: Variant, asked: Any, settings: Any, *told: Any) -> Any:
        kind = type(variant.drafter).__name__
        order.append(f"{kind} {settings.max_new_tokens}")
        return inner(target, variant, asked, settings, *told)

    monkeypatch.setattr(trial, "decoded", decode_noted)
    settings = Settings(gamma=3, max_new_tokens=10, repeats=3)
    asked = questions(target, [ONE_TURN, ONE_TURN], settings, chat=False, answers=False)
    variants = {name: Variant(drafter, Token()) for name, drafter in drafters.items()}
    measurements = list(measure(target, variants, [*asked[:1]], settings, protocol="decode"))
    plain, lookup, gram = (f"{type(drafters[name]).__name__} 10" for name in drafters)
    assert order[:4] == ["NoDraft 8", "NoDraft 8", *(f"{n.split()[0]} 8" for n in (lookup, gram))]
    assert order[4:] == [plain, lookup, gram, lookup, gram, plain, gram, plain, lookup]
    for measurement in measurements:
        decoding = measurement.decoding
        assert len(decoding.repeats) == len(decoding.plain_repeats) == 3
        assert decoding.seconds == sorted(decoding.repeats)[1]
        assert decoding.plain_seconds == sorted(decoding.plain_repeats)[1]
        assert Measurement.read(json.loads(json.dumps(measurement.plain()))) == measurement


def test_a_policy_that_learns_forgets_between_repeats(target: Any) -> None:
    settings = Settings(gamma=3, max_new_tokens=10, repeats=3)
    asked = questions(target, [ONE_TURN], settings, chat=False, answers=False)
    learned = []
    for repeats in (1, 3):
        policy = Confidence(0.5, refit=True)
        variants = {"bigram": Variant(bigram(), Token(), policy)}
        list(
            measure(target, variants, asked, replace(settings, repeats=repeats), protocol="decode")
        )
        learned.append(policy.threshold)
    assert learned[0] == learned[1]


def test_measurements_of_earlier_versions_are_read(
    run_in: Callable[..., Any], tmp_path: Path
) -> None:
    for measurement in run_in(tmp_path).measurements[:20]:
        item = json.loads(json.dumps(measurement.plain()))
        for part, names in (
            ("overlap", ("survived", "ended")),
            ("decoding", ("repeats", "plain_repeats")),
        ):
            for name in names if item[part] else ():
                del item[part][name]
        old = Measurement.read(item)
        if old.overlap is not None:
            assert old.overlap.survived == ()
        if old.decoding is not None:
            assert old.decoding.repeats == () and old.decoding.seconds > 0


def test_a_memory_holds_the_questions_before_in_each_repeat_and_protocol(target: Any) -> None:
    """Each question is drafted as by a new drafter that has written those before it, in order."""
    settings = Settings(gamma=3, max_new_tokens=12, repeats=2)
    asked = questions(target, [ONE_TURN, TWO_TURNS], settings, chat=False, answers=True)
    asked += [replace(asked[0], prompt="again")]
    drafter = Suffix(min_probability=0.0)
    variants = {"one": Variant(drafter, Token()), "other": Variant(drafter, Token())}
    fit(target, variants)
    measured = [m for m in measure(target, variants, asked, settings) if m.drafter == "other"]
    assert drafter.remembered == 0
    alone = Suffix(min_probability=0.0)
    overlaps = [m.overlap for m in measured if m.overlap]
    decodings = [m.decoding for m in measured if m.decoding]
    for question, sums, decoding in zip(asked, overlaps, decodings, strict=True):
        options = {"gamma": 3, "max_new_tokens": 12}
        rounds = list(decode(target, alone, Token(), question.tokens, **options))
        assert [step.tokens for step in decoding.steps] == [round.tokens for round in rounds]
        assert [step.accepted for step in decoding.steps] == [round.accepted for round in rounds]
        assert sums.rounds[-1] == pytest.approx(len(rounds))
    assert len(decodings[-1].steps) < len(decodings[0].steps)  # the same question again
    sampled = replace(settings, sampling=Sampling(temperature=1.0))
    with pytest.raises(ConfigError, match=r"data='b, again': expected no prompt twice"):
        list(measure(target, variants, asked, sampled))
