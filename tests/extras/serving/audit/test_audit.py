"""An audit finds each fault of an engine, and none where there is none."""

import pytest
from tiny.faulty_engine import FAULTS, FaultyEngine

from outrider.extras.serving.audit.audit import Auditor, Result
from outrider.extras.serving.audit.client import Counted, Request
from outrider.extras.serving.audit.expected import FromLogprobs, FromTarget
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


def test_an_engine_is_kept_once_the_control_is_found() -> None:
    result = audited(None, 300)
    assert result.verdict == "kept"
    assert result.line.startswith("kept: nothing found in")


@pytest.mark.parametrize("limit", [9, 12, 15, 60])
def test_every_request_counts_towards_the_limit(limit: int) -> None:
    asked = Counted(FaultyEngine(TARGET))
    result = Auditor(asked, PROMPTS, FromTarget(TARGET)).run(limit)
    assert result.requests == asked.sent <= limit


def test_texts_are_compared_with_those_without_drafts() -> None:
    other = FaultyEngine(TARGET, seed=9)
    for fault, verdict in (("greedy for sampled neighbours", "broken"), (None, "too few texts")):
        auditor = Auditor(FaultyEngine(TARGET, fault), PROMPTS, baseline=other)
        assert auditor.run(160).verdict == verdict


def test_texts_are_compared_with_the_log_probabilities_of_the_server() -> None:
    engine = FaultyEngine(TARGET, "residual left out")
    result = Auditor(engine, PROMPTS, FromLogprobs()).run(2000)
    assert result.verdict == "broken"
    assert "temperature 1" in result.line
