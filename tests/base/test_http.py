"""A server's answers, whatever is wrong with them, are a text or an error of one line."""

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from tiny.fake_server import Answer, served

from outrider.base import http
from outrider.base.http import TRIES, HttpClient, Refusal, ServerError, is_loopback, without_secrets

Serve = Callable[..., HttpClient]
LATER = {"Retry-After": "0"}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "PAUSE", 0)


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Starts a server that gives the next answer to each request."""
    with ExitStack() as stack:

        def start(*answers: Answer, patience: float = 60) -> HttpClient:
            left = iter(answers)
            url = stack.enter_context(served(lambda asked: next(left)))
            return HttpClient(url, patience=patience, hint=" (a log)")

        yield start


def test_servers_of_this_machine_are_asked_past_proxies(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")  # where nothing listens
    monkeypatch.setenv("no_proxy", "")
    assert serve(Answer("{}")).text("/models") == "{}"
    with pytest.raises(ServerError, match="refused"):
        HttpClient("http://no.example").text("/models")


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("localhost.", True), ("127.0.0.2", True), ("0.0.0.0", True), ("::1", True), ("::", True),
        ("::ffff:127.0.0.1", True), ("127.0.0.1.example.org", False), ("10.0.0.1", False),
        ("", False),
    ],
)  # fmt: skip
def test_a_machine_has_many_names_for_itself(host: str, expected: bool) -> None:
    assert is_loopback(host) == expected


def test_bytes_that_are_no_characters_are_read(serve: Serve) -> None:
    body = b"\xff\xf0\x9f"
    answer = Answer(b"HTTP/1.0 200 OK\r\n\r\n" + body)
    assert serve(answer).text("") == body.decode(errors="replace")


def test_a_busy_server_is_asked_again(serve: Serve) -> None:
    busy = (Answer("later", status, LATER) for status in (429, 503))
    assert serve(*busy, Answer("a text")).text("", {"prompt": "p"}) == "a text"
    with pytest.raises(Refusal, match="429 slow down"):
        serve(Answer("slow\n down", 429, {"Retry-After": "70"})).text("")


PASSING = [Answer("later", status) for status in (408, 425, 500, 502, 504, 529)]


@pytest.mark.parametrize("fault", [*PASSING, Answer(b"")])
def test_a_fault_that_passes_is_no_error_and_one_that_stays_is(serve: Serve, fault: Answer) -> None:
    client = serve(Answer("up"), fault, Answer("a text"), *[fault] * TRIES)
    assert client.text("") == "up"  # so it has been reached
    assert client.text("", {"prompt": "p"}) == "a text"
    with pytest.raises(Refusal if 0 < fault.status < 500 and fault.content else ServerError):
        client.text("", {"prompt": "p"})


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_an_address_that_has_moved_is_named_and_sent_nothing(status: int) -> None:
    place = "http://elsewhere.example/v1/there?key=secret"
    with served(lambda asked: Answer("", status, {"Location": place})) as url:
        with pytest.raises(Refusal, match=r"moved to http://elsewhere\.example/v1/there") as raised:
            HttpClient(f"{url}/v1").text("/v1/here", {"n": 1})
        assert "secret" not in str(raised.value)


def test_secrets_of_an_address_are_sent_and_not_shown() -> None:
    with served(lambda asked: Answer(f"{asked.path} {asked.headers['Authorization']}")) as url:
        secret = url.replace("//", "//me:word@") + "/v1?key=abc"
        assert HttpClient(secret).text("/v1/models") == "/v1/models?key=abc Basic bWU6d29yZA=="
    with pytest.raises(ServerError) as raised:
        HttpClient(secret).text("/v1/models")
    assert not any(it in str(raised.value) + without_secrets(secret) for it in ("word", "abc"))


@pytest.mark.parametrize(
    ("answer", "kind", "line"),
    [
        (Answer('{"error":\n "no such model"}', 400), Refusal, "400 .*no such model"),
        (Answer("<p>\n" * 999, 501), ServerError, r"501 <p> <p> .*\.\.\."),
        (Answer(b""), ServerError, "disconnected"),
        (Answer(b"SSH-2.0-OpenSSH_9.2\r\n"), ServerError, "expected a server"),
    ],
)
def test_wrong_answers_are_errors_of_one_line(
    serve: Serve, answer: Answer, kind: type[Exception], line: str
) -> None:
    with pytest.raises(kind, match=line) as raised:
        serve(*[answer] * TRIES).text("/completions", {"prompt": "p"})
    words = str(raised.value)
    assert type(raised.value) is kind and "/completions: " in words and words.endswith(" (a log)")
    assert "\n" not in words and len(words) < 400


def test_a_slow_server_is_not_waited_for_without_end() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:  # which never answers
        client = HttpClient(f"http://127.0.0.1:{listening.getsockname()[1]}", patience=0.05)
        with pytest.raises(ServerError, match="timed out: expected a server"):
            client.text("")


@pytest.mark.parametrize("url", ["127.0.0.1:8000", "http://", "ftp://x", "http://[::1"])
def test_addresses_that_are_none_are_errors(url: str) -> None:
    with pytest.raises(ServerError, match="expected a server"):
        HttpClient(url).text("/models")
