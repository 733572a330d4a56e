"""A server's answers, whatever is wrong with them, are a text or an error of one line."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from urllib.parse import urlsplit

import pytest

from outrider.extras.serving.address import Address, EngineError, Refusal, is_here

Serve = Callable[..., Address]


def reply(status: str, body: str = "", *headers: str) -> bytes:
    head = [f"HTTP/1.1 {status}", *headers, f"Content-Length: {len(body.encode())}"]
    return ("\r\n".join([*head, "", ""]) + body).encode()


@contextmanager
def served(answers: tuple[bytes, ...]) -> Iterator[str]:
    """Gives each connection the next answer, and closes it."""

    def serve() -> None:
        for answer in answers:
            with listening.accept()[0] as connection:
                connection.recv(65536)
                connection.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            thread.join()


@pytest.fixture
def serve() -> Iterator[Serve]:
    with ExitStack() as stack:

        def start(*answers: bytes, patience: float = 60) -> Address:
            url = stack.enter_context(served(answers))
            return Address(url, patience=patience, hint=" (a log)")

        yield start


def test_engines_on_this_machine_are_asked_past_proxies(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")  # where nothing listens
    monkeypatch.setenv("no_proxy", "")
    assert serve(reply("200 OK", "{}")).text("/models") == "{}"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://LOCALHOST.:1", True), ("http://127.0.0.2:1", True), ("http://0.0.0.0:1", True),
        ("http://[::1]:1", True), ("http://[::ffff:127.0.0.1]:1", True), ("http://[::]", True),
        ("http://127.0.0.1.example.org", False), ("http://10.0.0.1", False), ("http://", False),
    ],
)  # fmt: skip
def test_a_machine_has_many_names_for_itself(url: str, expected: bool) -> None:
    assert is_here(urlsplit(url).hostname or "") == expected


def test_bytes_that_are_no_characters_are_read(serve: Serve) -> None:
    body = b"\xff\xf0\x9f"
    answer = b"HTTP/1.1 200 OK\r\n\r\n" + body
    assert serve(answer).text("") == body.decode(errors="replace")


@pytest.mark.parametrize("status", ["429 Too Many Requests", "503 Service Unavailable"])
def test_a_busy_server_is_asked_again(serve: Serve, status: str) -> None:
    later = reply(status, "later", "Retry-After: 0")
    assert serve(later, later, reply("200 OK", "a text")).text("", {"prompt": "p"}) == "a text"


def test_a_server_that_stays_busy_is_told(serve: Serve) -> None:
    with pytest.raises(Refusal, match="429 slow down"):
        serve(reply("429 Too Many Requests", "slow\n down", "Retry-After: 70")).text("")


@pytest.mark.parametrize(
    ("answer", "kind", "line"),
    [
        (reply("400 Bad Request", '{"error":\n "no such model"}'), Refusal, "400 .*no such model"),
        (reply("500 Internal Server Error", "<p>\n" * 999), EngineError, r"500 <p> <p> .*\.\.\."),
        (b"", EngineError, "Remote end closed connection"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\ncut", EngineError, "IncompleteRead"),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            EngineError,
            "IncompleteRead",
        ),
        (b"SSH-2.0-OpenSSH_9.2\r\n", EngineError, "SSH-2.0"),
    ],
)
def test_wrong_answers_are_told_in_a_line(
    serve: Serve, answer: bytes, kind: type[Exception], line: str
) -> None:
    with pytest.raises(kind, match=line) as raised:
        serve(answer).text("/completions", {"prompt": "p"})
    told = str(raised.value)
    assert type(raised.value) is kind and "/completions: " in told and told.endswith(" (a log)")
    assert "\n" not in told and len(told) < 400


def test_a_slow_server_is_not_waited_for_without_end() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:  # which never answers
        address = Address(f"http://127.0.0.1:{listening.getsockname()[1]}", patience=0.05)
        with pytest.raises(EngineError, match="timed out: expected a server"):
            address.text("")


@pytest.mark.parametrize("url", ["127.0.0.1:8000", "nowhere", "http://", "ftp://x", "http://[::1"])
def test_addresses_that_are_none_are_told(url: str) -> None:
    with pytest.raises(EngineError, match="expected a server"):
        Address(url).text("/models")
