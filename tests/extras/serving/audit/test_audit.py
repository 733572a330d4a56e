"""An audit finds each fault of an engine, and none where there is none."""

from collections.abc import Sequence
from dataclasses import replace
from typing import final

import pytest
from tiny.faulty_engine import FAULTS, FaultyEngine

from outrider import OutriderError
from outrider.extras.serving.audit.audit import Auditor
from outrider.extras.serving.audit.client import Choice, Client, Counted, EngineError, Request
from outrider.extras.serving.audit.expected import FromLogprobs, FromTarget
from outrider.extras.serving.audit.result import Result
from outrider.targets.tabular import TabularTarget

TARGET = TabularTarget(8, order=2, seed=3, sharpness=1.2)
PROMPTS = [Request((1, 2), 24), Request((3,), 24)]


def audited(fault: str | None, requests: int, seed: int = 1) -> Result:
    engine = FaultyEngine(TARGET, fault, seed=seed)
    return Auditor(engine, PROMPTS, FromTarget(TARGET)).run(requests)


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_is_found(fault: str) -> None:
    assert audited(fault, 2000).verdict == "broken"


@pytest.mark.parametrize("seed", range(3))
def test_an_engine_without_a_fault_is_not_called_broken(seed: int) -> None:
    assert audited(None, 60, seed).verdict == "too few texts"


def test_a_suspicion_that_nothing_confirms_is_no_verdict() -> None:
    unlucky = audited(None, 30, seed=1050)  # three tokens of probability .003 in its first texts
    assert unlucky.suspected
    assert unlucky.line.startswith("too few texts to say: 16 texts, and not confirmed: penalties,")
    assert not audited(None, 60, seed=1050).suspected


def test_an_engine_is_kept_once_the_control_is_found() -> None:
    result = audited(None, 300)
    assert result.verdict == "kept"
    assert result.line.startswith("kept: nothing found in")


@pytest.mark.parametrize("limit", [9, 12, 15, 60])
def test_every_request_counts_towards_the_limit(limit: int) -> None:
    asked = Counted(FaultyEngine(TARGET))
    result = Auditor(asked, PROMPTS, FromTarget(TARGET)).run(limit)
    assert result.requests == asked.sent <= limit


@final
class Silent(Client):
    """Lists no log-probabilities for its second token, as llama.cpp for those of a draft."""

    def ask(self, requests: Sequence[Request]) -> list[list[Choice]]:
        answers = FaultyEngine(TARGET).ask(requests)
        return [[self._silent(choice) for choice in choices] for choices in answers]

    def _silent(self, choice: Choice) -> Choice:
        return replace(choice, likeliest=(choice.likeliest[0], {}, *choice.likeliest[2:]))


def test_tokens_without_log_probabilities_are_told() -> None:
    line = Auditor(Silent(), PROMPTS, FromLogprobs()).run(60).line
    assert line.startswith("broken: log-probabilities: none are listed for token 1 of a text")


@final
class Dying(Client):
    """Dies of its last request."""

    def __init__(self, answers: int, error: type[OutriderError]) -> None:
        self.engine, self.left, self.error = FaultyEngine(TARGET), answers, error

    def ask(self, requests: Sequence[Request]) -> list[list[Choice]]:
        self.left -= 1
        if self.left < 0:
            raise self.error("gone")
        return self.engine.ask(requests)


def test_an_engine_that_fails_once_it_has_answered_is_broken() -> None:
    result = Auditor(Dying(1, EngineError), PROMPTS, FromTarget(TARGET)).run(60)
    assert result.line.startswith(
        "broken: temperature 0.7, top-k 5, top-p 0.9, alone: the engine failed: gone"
    )
    assert result.requests == 2


@pytest.mark.parametrize(("answers", "error"), [(0, EngineError), (1, OutriderError)])
def test_an_engine_that_never_answers_or_refuses_is_not_judged(
    answers: int, error: type[OutriderError]
) -> None:
    with pytest.raises(error, match="gone"):
        Auditor(Dying(answers, error), PROMPTS, FromTarget(TARGET)).run(60)


def test_texts_are_compared_with_those_without_drafts() -> None:
    other = FaultyEngine(TARGET, seed=9)
    for fault, verdict in (("greedy for sampled neighbours", "broken"), (None, "too few texts")):
        auditor = Auditor(FaultyEngine(TARGET, fault), PROMPTS, baseline=other)
        assert auditor.run(180).verdict == verdict


def test_texts_are_compared_with_the_log_probabilities_of_the_server() -> None:
    engine = FaultyEngine(TARGET, "residual left out")
    result = Auditor(engine, PROMPTS, FromLogprobs()).run(2000)
    assert result.verdict == "broken"
    assert "temperature 1" in result.line
