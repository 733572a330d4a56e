"""A served engine is asked over HTTP."""

from collections.abc import Iterator
from typing import Any

import pytest
from tiny.fake_server import Answer, Asked, served

from outrider.base.http import Refusal, ServerError
from outrider.extras.audit.client import Choice, OpenAIClient, Request


class Engine:
    """Has a model, and answers each request with `choice`, unless it holds what is refused."""

    def __init__(self) -> None:
        self.choice: Any = {}
        self.asked: dict[str, Any] = {}
        self.refused: set[str] = set()

    def answer(self, asked: Asked) -> Answer:
        if asked.body is None:
            return Answer({"data": [{"id": "a model"}]})
        self.asked = asked.body
        if asked.headers["Content-Type"] != "application/json":
            return Answer("Unsupported Media Type", 415)  # as vLLM does
        if refused := sorted(self.refused & {*self.asked}):
            return Answer(f"what is {refused[0]}?", 422)
        is_choice = isinstance(self.choice, dict)
        return Answer({"choices": [self.choice]} if is_choice else self.choice)


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


TOP = {"a": -0.5, "b": -1.0}
COMPLETION = {
    "text": "ab",
    "logprobs": {"tokens": ["a", "b"], "token_logprobs": [-0.5, -1.0], "top_logprobs": [TOP, TOP]},
}


def entries(**ids: int) -> dict[str, Any]:
    """What chats list, with ids if there are any."""

    def named(token: str) -> dict[str, Any]:
        known = {"id": ids[token]} if token in ids else {}
        return {"token": token, "logprob": TOP[token]} | known

    listed = [named(token) | {"top_logprobs": [named(top) for top in TOP]} for token in TOP]
    return {"logprobs": {"content": listed}}


BY_NAME = Choice("ab", ("a", "b"), (-0.5, -1.0), (TOP, TOP))
BY_ID = Choice("ab", (7, 8), (-0.5, -1.0), ({7: -0.5, "b": -1.0}, {"a": -0.5, 8: -1.0}))


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (COMPLETION, BY_NAME),
        (COMPLETION | {"token_ids": [7, 8]}, BY_ID),
        ({"message": {"content": "ab"}} | entries(), BY_NAME),
        ({"message": {"content": "ab"}, "token_ids": [7, 8]} | entries(), BY_ID),
        (
            {"text": "ab"} | entries(a=7, b=8),  # llama.cpp's completions
            Choice("ab", (7, 8), (-0.5, -1.0), ({7: -0.5, 8: -1.0},) * 2),
        ),
        ({"text": "ab"}, Choice("ab")),
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


@pytest.mark.parametrize(
    "answer",
    [
        None,
        "<html>" * 999,
        {"text": "a", "logprobs": {"tokens": ["a"], "token_logprobs": [-1, -1]}},
        {"text": "a", "logprobs": {"content": [{"token": "a"}]}},
    ],
)
def test_an_answer_of_another_form_is_quoted(
    client: OpenAIClient, engine: Engine, answer: Any
) -> None:
    engine.choice = answer
    with pytest.raises(ServerError, match="/v1/completions: expected what OpenAI's API answers: "):
        client.ask([Request("a prompt", 2)])
