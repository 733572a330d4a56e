"""A served engine is asked over HTTP."""

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tiny.fake_server import Answer, Asked, served

from outrider.base.http import Refusal, Unreadable
from outrider.extras.audit.client import Choice, Request
from outrider.extras.audit.served import OpenAIClient


class Engine:
    """Has a model, and answers each request with `choice`, unless it holds what is refused."""

    def __init__(self) -> None:
        self.choice: Any = {}
        self.asked: dict[str, Any] = {}
        self.refused: set[str] = set()
        self.whole: list[Answer] = []  # the next answers, as they are

    def answer(self, asked: Asked) -> Answer:
        if asked.body is None:
            return Answer({"data": [{"id": "a model"}]})
        self.asked = asked.body
        if self.whole:
            return self.whole.pop()
        if asked.headers["Content-Type"] != "application/json":
            return Answer("Unsupported Media Type", 415)  # as vLLM does
        if refused := sorted(self.refused & {*self.asked}):
            return Answer(f"what is {refused[0]}?", 422)
        return Answer({"choices": [self.choice]})


@pytest.fixture
def engine() -> Engine:
    return Engine()


@pytest.fixture
def url(engine: Engine) -> Iterator[str]:
    with served(engine.answer) as address:
        yield address


@pytest.fixture
def client(url: str) -> OpenAIClient:
    return OpenAIClient(url, patience=60)


ANSWERS = Path(__file__).with_name("answers.jsonl")
CALL = {"function": {"name": "f", "arguments": "{}"}}
TOP = {"a": -0.5, "b": -1.0}
COMPLETION = {
    "text": "ab",
    "logprobs": {"tokens": ["a", "b"], "token_logprobs": [-0.5, -1.0], "top_logprobs": [TOP, TOP]},
}


def listed(value: Any, other: Any = -1.0, name: str = "b") -> dict[str, Any]:
    tops = [{"token": "a", "logprob": other}, {"token": name, "logprob": value}]
    return {"text": "a", "logprobs": {"content": [tops[0] | {"top_logprobs": tops}]}}


BY_NAME = Choice("ab", ("a", "b"), (-0.5, -1.0), (TOP, TOP))
ZERO = Choice("a", ("a",), (-1.0,), ({"a": -1.0, "b": -math.inf},))
SHARED = Choice("a", ("a",), (-1.0,), ({"a": -2.0},), shared=frozenset("a"))
BY_ID = Choice("ab", (7, 8), (-0.5, -1.0), ({7: -0.5, "b": -1.0}, {"a": -0.5, 8: -1.0}))


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (COMPLETION, BY_NAME),
        (COMPLETION | {"token_ids": [7, 8]}, BY_ID),
        ({"text": "ab"}, Choice("ab")),
        ({"message": {"content": [{"type": "text", "text": "a"}, {"text": "b"}]}}, Choice("ab")),
        ({"message": {"content": None, "refusal": "no"}}, Choice("no")),
        ({"message": {"tool_calls": [CALL]}}, Choice('{"name": "f", "arguments": "{}"}')),
        *((listed(zero), ZERO) for zero in (None, "-Infinity", -math.inf)),
        (listed(-2.0, name="a"), SHARED),
        ({"text": None, "finish_reason": "stop"}, Choice("", ended=True)),
        ({"text": "ab", "logprobs": {"content": None}}, Choice("ab")),
        (
            {"text": "ab", "logprobs": {"tokens": ["token_id:7", "b"], "token_logprobs": None}},
            Choice("ab", (7, "b")),
        ),
        (
            {"text": "é", "logprobs": {"tokens": ["\ufffd"], "token_logprobs": [None]}},
            Choice("é", ("\ufffd",)),
        ),
    ],
)
def test_each_form_of_an_answer_is_read(
    client: OpenAIClient, engine: Engine, answer: dict[str, Any], expected: Choice
) -> None:
    engine.choice = answer
    assert client.ask([Request("a prompt", 2)]) == [[expected]]


@pytest.mark.parametrize("line", ANSWERS.read_text().splitlines())
def test_each_servers_answers_are_read(client: OpenAIClient, engine: Engine, line: str) -> None:
    """Those of llama.cpp were recorded, those of SGLang are of the form that it publishes."""
    recorded = json.loads(line)
    engine.whole = [Answer(recorded["answer"])]
    ((choice,),) = client.ask([Request("a prompt", 2)])
    found = choice.text, [*choice.tokens], [[*listed] for listed in choice.likeliest]
    assert found == tuple(recorded[name] for name in ("text", "tokens", "likeliest"))
    own = [row[token] for row, token in zip(choice.likeliest, choice.tokens, strict=True)]
    assert tuple(own) == (choice.logprobs or ())


def test_no_log_probabilities_are_asked_for_if_none_are_wanted(url: str, engine: Engine) -> None:
    engine.choice = {"text": "ab"}
    silent = OpenAIClient(url, model="a model", logprobs=0, patience=60)
    assert silent.ask([Request("a prompt", 2)]) == [[Choice("ab")]]
    assert "logprobs" not in engine.asked


def test_settings_are_sent_even_where_they_change_nothing(
    client: OpenAIClient, engine: Engine
) -> None:
    engine.choice = COMPLETION
    client.ask([Request((3, 4), 2)])
    sent = {name: engine.asked[name] for name in ("prompt", "top_p", "top_k", "min_p")}
    assert sent == {"prompt": [3, 4], "top_p": 1.0, "top_k": -1, "min_p": 0.0}


@pytest.mark.parametrize("refused", ["top_k", "return_token_ids", "n"])
def test_neutral_settings_are_kept_from_a_strict_server(
    client: OpenAIClient, engine: Engine, refused: str
) -> None:
    engine.choice, engine.refused = COMPLETION, {refused}
    for _ in range(2):
        assert client.ask([Request("a prompt", 2)]) == [[BY_NAME]]
        assert not {"top_p", "top_k", "min_p", "n", "return_token_ids"} & {*engine.asked}


def test_a_refusal_of_other_settings_is_quoted(client: OpenAIClient, engine: Engine) -> None:
    engine.refused = {"seed", "top_k"}
    with pytest.raises(Refusal, match=r"/v1/completions: 422 what is seed"):
        client.ask([Request("a prompt", 2, seed=1)])


TOPS = "choices[0].logprobs.content[0].top_logprobs"


def one(choice: Any) -> Answer:
    return Answer({"choices": [choice]})


@pytest.mark.parametrize(
    ("answer", "line"),
    [
        (one(listed(math.nan)), f"{TOPS}[1].logprob: expected a log-probability, which is at most"),
        (one(listed(-0.1, -0.1)), f"{TOPS}: their probabilities sum to 1.81: expected natural log"),
        (one({"text": {"a": 1}}), "choices[0].text: Input should be a valid string"),
        (Answer({}), "choices: Field required"),
        (Answer("<html>" * 999), "no JSON"),
        (Answer(b"HTTP/1.0 200 OK\r\n\r\n\x1f\x8b\x08\x00"), "no JSON"),
    ],
)  # fmt: skip
def test_an_answer_that_cannot_be_read_is_told_by_its_path(
    client: OpenAIClient, engine: Engine, answer: Answer, line: str
) -> None:
    engine.whole = [answer] * 2  # it is asked again
    with pytest.raises(Unreadable, match=re.escape(line)) as raised:
        client.ask([Request("a prompt", 2)])
    assert "/v1/completions: expected what OpenAI's API answers: " in str(raised.value)
    assert str(raised.value).isprintable()


@pytest.mark.parametrize("status", [400, 408, 409, 422, 425, 429, 502, 504, 529])
def test_one_passing_refusal_changes_no_later_request(
    url: str, engine: Engine, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("outrider.base.http.PAUSE", 0)
    engine.choice, client = COMPLETION, OpenAIClient(url)
    for first in (True, False):
        engine.whole = [Answer("not now", status)]
        assert client.ask([Request("a prompt", 2)]) == [[BY_NAME]], first
        client.ask([Request("a prompt", 2)])
        assert {"top_p", "top_k", "min_p", "n"} <= {*engine.asked}
