"""An audit finds each fault of an engine, and none where there is none."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, final, get_args

import pytest
from tiny.audit_faults import PROMPTS, TARGET, audited
from tiny.faulty_engine import FAULTS, FaultyEngine

from outrider import OutriderError
from outrider.base.errors import ConfigError
from outrider.base.http import Refusal, ServerError, Unreadable
from outrider.contract.sampling import Sampling
from outrider.extras.audit.audit import Auditor
from outrider.extras.audit.client import Choice, Client, Request, Token
from outrider.extras.audit.expected import Expected, FromLogprobs, FromTarget
from outrider.extras.audit.settings import Skipped


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_is_found(fault: str) -> None:
    assert audited((fault, "target", 1), 2000).verdict == "broken"


@pytest.mark.parametrize("limit", [11, 14, 16, 60])
def test_every_request_counts_towards_the_limit(limit: int) -> None:
    asked: list[Request] = []
    client = Changed(request=lambda request: asked.append(request) or request)
    result = Auditor(client, PROMPTS, FromTarget(TARGET)).run(limit)
    assert result.requests == len(asked) <= limit


@final
class Changed(Client):
    """Changes what an engine answers, or what it is asked; it dies after some answers."""

    def __init__(
        self,
        choice: Callable[[Choice], Choice] = lambda choice: choice,
        request: Callable[[Request], Request] = lambda request: request,
        left: int = 9999,
        error: type[OutriderError] = ServerError,
    ) -> None:
        self.engine, self.choice, self.request = FaultyEngine(TARGET), choice, request
        self.left, self.error = left, error

    def ask(self, requests: Sequence[Request]) -> list[list[Choice]]:
        self.left -= 1
        if self.left < 0:
            raise self.error("gone")
        answers = self.engine.ask(list(map(self.request, requests)))
        return [list(map(self.choice, choices)) for choices in answers]


@pytest.mark.parametrize(("odd_texts", "verdict"), [(1, "too few texts"), (4, "broken")])
def test_one_text_is_no_verdict_however_odd_it_is(odd_texts: int, verdict: str) -> None:
    unlikely: list[int] = []
    for _ in range(12):
        unlikely.append(int(TARGET.logits([*PROMPTS[0].prompt, *unlikely]).argmin()))
    changes = [{}, *[{"tokens": (*unlikely,), "logprobs": None, "likeliest": ()}] * odd_texts]
    client = Changed(lambda choice: replace(choice, **(changes.pop(0) if changes else {})))
    skip = ["greedy", "temperature 1", "penalties", "repetition penalty", "seeds", "stop strings"]
    result = Auditor(client, PROMPTS, FromTarget(TARGET), skip=skip).run(3)
    assert result.verdict == verdict and result.requests == 3, result.line


def silent(choice: Choice) -> Choice:
    """Lists no log-probabilities for its second token, as llama.cpp for those of a draft."""
    return replace(choice, likeliest=(choice.likeliest[0], {}, *choice.likeliest[2:]))


@pytest.mark.parametrize(
    ("change", "line"),
    [({"n": 1}, "n: 1 texts came for n=4"), ({"seed": None}, "seeds: seed 1 gave")],
)
def test_an_audit_lists_all_that_an_engine_lacks(change: dict[str, Any], line: str) -> None:
    client = Changed(request=lambda request: replace(request, **change))
    assert Auditor(client, PROMPTS, FromTarget(TARGET)).run(60).line.startswith(f"broken: {line}")


def test_a_seed_that_once_does_not_repeat_is_no_fault() -> None:
    rounded = Changed(request=lambda r: replace(r, seed=None if r.seed == 0 else r.seed))
    assert Auditor(rounded, PROMPTS, FromTarget(TARGET)).run(60).verdict == "too few texts"


def test_skipped_kinds_are_neither_asked_for_nor_judged() -> None:
    asked: list[Request] = []
    client = Changed(silent, lambda request: asked.append(request) or request)
    skip = [name for name in get_args(Skipped) if name != "temperature 1"]
    result = Auditor(client, PROMPTS, FromTarget(TARGET), skip=skip).run(150)
    assert result.line.startswith("kept: nothing found in")
    assert {finding.name.partition(",")[0] for finding in result.findings} == {"temperature 1"}
    plain = Sampling(temperature=1.0)
    assert {(r.sampling, r.n, r.seed, r.stop, len(r.penalties)) for r in asked} == {
        (plain, 1, None, (), 0)
    }
    with pytest.raises(ConfigError, match="expected a kind of sampled texts to be left"):
        Auditor(client, PROMPTS, skip=["temperature 1", *skip])


def test_a_text_that_is_longer_than_its_end_is_told() -> None:
    expected = FromTarget(TARGET)
    expected.eos = {3}
    chosen = {"tokens": (1, 3, 2), "likeliest": (), "logprobs": None}
    for max_tokens, line in ((24, "token 1, which ends it"), (2, "3 tokens came for max_tokens=2")):
        client = Changed(lambda choice: replace(choice, **chosen))
        prompts = [Request((1, 2), max_tokens)]
        assert line in Auditor(client, prompts, expected).run(11).line


def test_two_engines_have_a_control_whatever_is_skipped() -> None:
    skip = ["truncated", "penalties", "repetition penalty"]
    for left_out in (skip, [*skip, "seeds"], ["temperature 1", *skip[1:]]):
        clients = [FaultyEngine(TARGET, seed=seed) for seed in (1, 2)]
        assert Auditor(clients[0], PROMPTS, None, clients[1], skip=left_out).run(60).control != 0


@pytest.mark.parametrize(
    ("change", "expected", "line"),
    [
        ({"tokens": ("a", 1)}, FromTarget(TARGET), "the server tells no ids of tokens"),
        ({"logprobs": None}, FromLogprobs(), "the server lists no log-probabilities"),
        ({"likeliest": ()}, FromLogprobs(), "lists no likeliest tokens .* for token 0"),
        ({"ended": True, "tokens": ("a",), "text": "a"}, FromLogprobs(), "token that ends a text"),
    ],
)
def test_a_server_that_does_not_tell_enough_is_not_judged(
    change: dict[str, Any], expected: Expected, line: str
) -> None:
    client = Changed(lambda choice: replace(choice, **change))
    with pytest.raises(OutriderError, match=line):
        Auditor(client, PROMPTS, expected).run(60)


@pytest.mark.parametrize(
    ("listed", "line"),
    [
        ({0: -1.0, 1: -1.01}, "too few texts"),
        ({0: -1.0, 1: -1.2}, "token 0 is 1, not 0: 0.20 likelier"),
        ({0: -1.0, 2: -3.0}, "token 0 is 1, not 0: 2.00 likelier"),
        ({0: -1.0}, "too few texts"),
    ],
)
def test_greedy_texts_of_two_engines_may_differ_at_a_tie(
    listed: dict[Token, float], line: str
) -> None:
    mine, theirs = (
        Changed(lambda choice, token=token: Choice("ab"[token], (token,), (-1.0,), (listed,)))
        for token in (1, 0)
    )
    skip = ["seeds", "stop strings"]
    result = Auditor(mine, PROMPTS, baseline=theirs, skip=skip).run(22)
    assert line in result.line
    assert result.ties == (4 if 1 in listed and line == "too few texts" else 0)
    assert bool(result.unjudged) == (len(listed) == 1)


def test_an_engine_is_broken_that_fails_again_and_only_with_drafts() -> None:
    skip = ["seeds", "stop strings"]
    dying, other = Changed(left=1), FaultyEngine(TARGET, seed=9)
    result = Auditor(dying, PROMPTS, baseline=other, skip=skip).run(60)
    assert result.line.startswith(
        "broken: truncated, alone: the engine failed, and without drafts it did not: gone"
    )


def test_an_engine_is_not_blamed_for_a_baseline_that_fails() -> None:
    for mine, theirs in ((99, 2), (2, 2)):
        auditor = Auditor(Changed(left=mine), PROMPTS, baseline=Changed(left=theirs))
        with pytest.raises(ServerError, match="gone"):
            auditor.run(60)


@pytest.mark.parametrize(
    ("answers", "error"),
    [(0, ServerError), (1, OutriderError), (1, ServerError), (1, Unreadable), (1, Refusal)],
)
def test_an_engine_that_never_answers_or_refuses_is_not_judged(
    answers: int, error: type[OutriderError]
) -> None:
    with pytest.raises(error, match="gone"):
        Auditor(Changed(left=answers, error=error), PROMPTS, FromTarget(TARGET)).run(60)


def test_texts_are_compared_with_those_without_drafts() -> None:
    other = FaultyEngine(TARGET, seed=9)
    for fault, verdict in (("greedy for sampled neighbours", "broken"), (None, "too few texts")):
        auditor = Auditor(FaultyEngine(TARGET, fault), PROMPTS, baseline=other)
        result = auditor.run(180)
        assert result.verdict == verdict
        assert all("against no drafts" in f.name or f.fault for f in result.findings)


def test_texts_are_compared_with_the_log_probabilities_of_the_server() -> None:
    result = audited(("residual left out", "log-probabilities", 1), 2000)
    assert result.verdict == "broken"
    assert "temperature 1" in result.line
