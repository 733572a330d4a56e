"""Whatever is handed over gives the right result, or one line; planted faults are found."""

from typing import Any

import pytest

from outrider import ConfigError
from outrider.extras.fuzzing.attempt import RUNNERS, Attempt
from outrider.extras.fuzzing.campaign import run_campaign
from outrider.extras.fuzzing.objects import entries
from outrider.extras.fuzzing.tally import Tally
from outrider.extras.fuzzing.tokenizers import KINDS
from outrider.extras.fuzzing.values import made

COUNTS = {"objects": 80, "tokenizers": 60, "templates": 40, "configs": 6}


@pytest.mark.parametrize("kind", COUNTS)
def test_a_short_campaign_finds_nothing_raw(kind: str) -> None:
    tally = Tally()
    run_campaign(kind, tally, seed=3, runs=COUNTS[kind])
    assert tally.failure is None, f"{tally.failure[1]}\n{tally.failure[0].command()}"
    assert tally.kinds == {kind: COUNTS[kind]}
    assert tally.texts > 0 or kind == "configs"


def test_every_kind_has_a_strategy_and_a_runner() -> None:
    assert RUNNERS.keys() == COUNTS.keys()
    assert len(entries()) > 200 and len(KINDS) == 9


@pytest.mark.parametrize(
    ("kind", "patched", "replaced", "reason"),
    [
        ("objects", "outrider.decoding.run.check_stop_ids", lambda *_: None, "TypeError"),
        (
            "tokenizers",
            "outrider.decoding.detokenizer.Detokenizer.push",
            lambda self, token: "",
            "decode gives",
        ),
        (
            "templates",
            "outrider.contract.target.in_chat_template",
            lambda tokenizer, turns: "<|user|>",
            "the prompt is lost",
        ),
    ],
)
def test_planted_faults_are_found(
    kind: str, patched: str, replaced: Any, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patched, replaced)
    tally = Tally()
    run_campaign(kind, tally, seed=1, runs=2000)  # it ends at the first that it finds
    assert tally.failure is not None and reason in tally.failure[1]


def test_an_attempt_is_repeated_by_its_command(run: Any) -> None:
    attempt = Attempt("objects", {"entry": "generate.gamma", "value": {"object": "nan"}})
    assert Attempt.of(attempt.plain()) == attempt
    out = run.done("fuzz", attempt.command().split("'")[1])
    assert "refused: gamma=nan: expected a whole number of at least 1" in out
    with pytest.raises(ConfigError, match=r"example\.kind='x': expected one of objects, "):
        Attempt.of({"kind": "x"})


def test_names_stand_for_objects_at_any_depth() -> None:
    value = made([{"a": {"object": "bytes"}}, 1])
    assert value == [{"a": b"hi"}, 1]
