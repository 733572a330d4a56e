"""The kit finds the faults of constraints, data sources, reports and scores."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from outrider import Constraint
from outrider.data.jsonl import demo, own
from outrider.data.prompts import Prompt
from outrider.data.score import Judge, Score
from outrider.lab.runs.report import Report
from outrider.testing import run_checks


def faults(make: Callable[[], Any]) -> list[str]:
    """Returns the names of the checks that fail."""
    return [outcome.check for outcome in run_checks(make) if outcome.fault]


class NoRepeats(Constraint):
    """Never the same token twice in a row; the text ends with its eighth token."""

    def logits(self, ids: Sequence[int], logits: Any) -> Any:
        allowed = logits.clone()
        allowed[ids[-1]] = -torch.inf
        return allowed

    def ends(self, ids: Sequence[int]) -> bool:
        return len(ids) >= 8

    def steering(self) -> Constraint:
        return self


class InPlace(NoRepeats):
    def logits(self, ids: Sequence[int], logits: Any) -> Any:
        logits[ids[-1]] = -torch.inf
        return logits


class Fickle(NoRepeats):
    """Its answers depend on how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0

    def logits(self, ids: Sequence[int], logits: Any) -> Any:
        self.asked += 1
        return super().logits([self.asked % 3], logits)


class Forbidding(NoRepeats):
    def logits(self, ids: Sequence[int], logits: Any) -> Any:
        return torch.full_like(logits, -torch.inf)


class ForcedRepeat(NoRepeats):
    def forced(self, ids: Sequence[int]) -> list[int]:
        return [ids[-1]]


def test_a_loop_that_leaves_out_the_constraint_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "outrider.decoding.rounds.constrained", lambda constraint, ids, draft, logits: logits
    )
    assert "texts_have_the_constrained_distribution" in faults(NoRepeats)


def test_faulty_constraints_are_caught() -> None:
    assert not faults(NoRepeats)
    assert "masks_are_well_formed" in faults(InPlace)
    assert "answers_depend_on_the_ids_alone" in faults(Fickle)
    assert "masks_are_well_formed" in faults(Forbidding)
    assert faults(ForcedRepeat) == ["forced_tokens_are_possible"]


def test_faulty_data_sources_are_caught() -> None:
    assert not faults(partial(demo, limit=3))
    (first, _) = run_checks(own)
    assert first.refused == "it has no prompts"
    twice = [Prompt("1", "x", ("a",)), Prompt("1", "x", ("b",))]
    for prompts in (twice, [Prompt("1", "x", ())], [Prompt("1", "x", ("",))], ["a text"]):
        assert faults(lambda prompts=prompts: prompts) == ["prompts_are_conversations"]  # type: ignore[misc]
    numbers = iter(range(9))
    other = lambda: [Prompt(str(next(numbers)), "x", ("a",))]
    assert faults(other) == ["prompts_are_the_same_again"]


class Liar(Report):
    def end(self, summaries: Any, folder: Path) -> tuple[Path, ...]:
        return (folder / "gone.html",)


class Fails(Report):
    def add(self, measurement: Any) -> None:
        raise ZeroDivisionError


class FailsToLog(Report):
    def log(self, figures: Any, step: int) -> None:
        raise ZeroDivisionError


class FailsToStop(Report):
    def stop(self) -> None:
        raise ZeroDivisionError


def test_faulty_reports_are_caught() -> None:
    assert not faults(Report)
    stopped = "a_run_may_be_stopped"
    compared, logged = "a_run_is_followed_to_its_end", "a_run_that_compares_no_drafters_is_followed"
    assert faults(Liar) == [compared, logged, "several_runs_are_reported"]
    assert faults(Fails) == [compared, stopped]
    assert faults(FailsToLog) == [logged]
    assert faults(FailsToStop) == [stopped]


def test_the_reports_of_the_package_keep_the_contract(drawn_once: None) -> None:
    from outrider.extras.view.report import Page, Tables

    assert not faults(Page) and not faults(Tables)


class Counting(Score):
    """Its scores depend on how often it was asked."""

    asked = 0

    def judge(self, prompt: Prompt, turn: int) -> Judge | None:
        def judge(answer: str) -> float:
            Counting.asked += 1
            return 1 / Counting.asked

        return judge


class Length(Score):
    def judge(self, prompt: Prompt, turn: int) -> Judge | None:
        return lambda answer: float(len(answer))


class Unable(Score):
    def judge(self, prompt: Prompt, turn: int) -> Judge | None:
        return None


def test_faulty_scores_are_caught() -> None:
    assert faults(Counting) == ["an_answer_has_the_same_score_again"]
    assert faults(Length) == ["scores_are_from_0_to_1"]
    assert not faults(Unable)
    (first, _) = run_checks(Unable)
    assert first.refused == "it has no score for the kit's prompts"
