"""A served engine is asked over HTTP."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, ClassVar

import pytest

from outrider.extras.serving.audit.client import Choice, OpenAIClient, Request


class _Engine(BaseHTTPRequestHandler):
    """Has a model, and answers each question with `answer`."""

    answer: ClassVar[dict[str, Any]] = {}
    asked: ClassVar[dict[str, Any]] = {}
    url: ClassVar[str]

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"data": [{"id": "a model"}]}')

    def do_POST(self) -> None:
        type(self).asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"choices": [self.answer]}).encode())

    def log_message(self, format: str, *args: object) -> None:
        pass


def test_engines_on_this_machine_are_asked_past_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")  # where nothing listens
    monkeypatch.setenv("no_proxy", "")
    with HTTPServer(("127.0.0.1", 0), _Engine) as server:
        server.timeout = 3600
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        try:
            OpenAIClient(f"http://127.0.0.1:{server.server_port}", patience=60)
        finally:
            thread.join()


@pytest.fixture
def client() -> Iterator[OpenAIClient]:
    with HTTPServer(("127.0.0.1", 0), _Engine) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            _Engine.url = f"http://127.0.0.1:{server.server_port}"
            yield OpenAIClient(_Engine.url, patience=60)
        finally:
            server.shutdown()
            thread.join()


TOP = {"a": -0.5, "b": -1.0}
COMPLETION = {
    "text": "ab",
    "logprobs": {
        "tokens": ["a", "b"],
        "token_logprobs": [-0.5, -1.0],
        "top_logprobs": [TOP, TOP],
    },
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
