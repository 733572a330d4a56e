"""A served engine is asked over HTTP."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, ClassVar

import pytest

from outrider.extras.audit.client import Choice, OpenAIClient, Request
from outrider.extras.serving.address import EngineError, Refusal


class _Engine(BaseHTTPRequestHandler):
    """Has a model, and answers each question with `answer`, unless it says what is refused."""

    answer: ClassVar[Any] = {}
    asked: ClassVar[dict[str, Any]] = {}
    refused: ClassVar[frozenset[str]] = frozenset()
    url: ClassVar[str]

    def do_GET(self) -> None:
        self.reply(200, {"data": [{"id": "a model"}]})

    def do_POST(self) -> None:
        type(self).asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        refused = sorted(self.refused & {*self.asked})
        if self.headers["Content-Type"] != "application/json":
            self.reply(415, "Unsupported Media Type")  # as vLLM does
        elif refused:
            self.reply(422, f"what is {refused[0]}?")
        else:
            is_whole = not isinstance(self.answer, dict)
            self.reply(200, self.answer if is_whole else {"choices": [self.answer]})

    def reply(self, status: int, content: Any) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(content).encode())

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def client() -> Iterator[OpenAIClient]:
    with HTTPServer(("127.0.0.1", 0), _Engine) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            _Engine.url = f"http://127.0.0.1:{server.server_port}"
            _Engine.refused = frozenset()
            yield OpenAIClient(_Engine.url, patience=60)
        finally:
            server.shutdown()
            thread.join()


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
    client: OpenAIClient, answer: dict[str, Any], expected: Choice
) -> None:
    _Engine.answer = answer
    assert client.ask([Request("a prompt", 2)]) == [[expected]]


def test_no_log_probabilities_are_asked_for_if_none_are_wanted(client: OpenAIClient) -> None:
    _Engine.answer = {"text": "ab"}
    silent = OpenAIClient(_Engine.url, model="a model", logprobs=0, patience=60)
    assert silent.ask([Request("a prompt", 2)]) == [[Choice("ab")]]
    assert "logprobs" not in _Engine.asked


def test_settings_are_sent_even_where_they_change_nothing(client: OpenAIClient) -> None:
    _Engine.answer = COMPLETION
    client.ask([Request((3, 4), 2)])
    sent = {name: _Engine.asked[name] for name in ("prompt", "top_p", "top_k", "min_p")}
    assert sent == {"prompt": [3, 4], "top_p": 1.0, "top_k": -1, "min_p": 0.0}


@pytest.mark.parametrize("refused", ["top_k", "return_token_ids", "n"])
def test_neutral_settings_are_kept_from_a_strict_server(client: OpenAIClient, refused: str) -> None:
    _Engine.answer, _Engine.refused = COMPLETION, frozenset({refused})
    for _ in range(2):
        assert client.ask([Request("a prompt", 2)]) == [[BY_NAME]]
        assert not {"top_p", "top_k", "min_p", "n", "return_token_ids"} & {*_Engine.asked}


def test_a_refusal_of_other_settings_is_quoted(client: OpenAIClient) -> None:
    _Engine.refused = frozenset({"seed", "top_k"})
    with pytest.raises(Refusal, match=r"/v1/completions: 422 .what is seed"):
        client.ask([Request("a prompt", 2, seed=1)])


@pytest.mark.parametrize(
    "answer",
    [
        [],
        None,
        "no",
        [{"choices": []}],
        {"text": "a", "logprobs": [1]},
        "<html>" * 999,
        {"text": "a", "logprobs": {"tokens": ["a"], "token_logprobs": [-1, -1]}},
        {"text": "a", "logprobs": {"content": [{"token": "a"}]}},
        {
            "text": "a",
            "logprobs": {"content": [{"token": "a", "logprob": "x", "top_logprobs": []}]},
        },
    ],
)
def test_an_answer_of_another_form_is_quoted(client: OpenAIClient, answer: Any) -> None:
    _Engine.answer = answer
    with pytest.raises(EngineError, match="/v1/completions: expected what OpenAI's API answers: "):
        client.ask([Request("a prompt", 2)])
