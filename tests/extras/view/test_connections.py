"""A connection has so long to bring a request, by a clock that the test moves."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
import uvicorn
from starlette.responses import PlainTextResponse
from uvicorn.server import ServerState

from outrider.extras.view.connections import SECONDS, PunctualProtocol

REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


class Loop:
    """Runs what is due when the clock is moved; nothing waits."""

    def __init__(self) -> None:
        self.now = 0.0
        self._calls: list[tuple[float, asyncio.Handle, Callable[[], None]]] = []
        self._loop = asyncio.new_event_loop()

    def call_later(self, seconds: float, function: Callable[[], None]) -> asyncio.Handle:
        handle = asyncio.Handle(function, (), self._loop)
        self._calls.append((self.now + seconds, handle, function))
        return handle

    def create_task(self, coroutine: Any, **_: Any) -> Any:
        task = self._loop.create_task(coroutine)
        self._loop.run_until_complete(task)
        return task

    def wait(self, seconds: float) -> None:
        self.now += seconds
        due = [call for call in self._calls if call[0] <= self.now]
        self._calls = [call for call in self._calls if call[0] > self.now]
        for _, handle, function in due:
            if not handle.cancelled():
                function()

    def close(self) -> None:
        self._loop.close()


class Wire(asyncio.Transport):
    """A connection that keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written, self.is_closed = b"", False

    def write(self, data: Any) -> None:
        self.written += bytes(data)

    def close(self) -> None:
        self.is_closed = True

    def resume_reading(self) -> None:
        """Nothing has been paused."""

    def is_closing(self) -> bool:
        return self.is_closed


@pytest.fixture
def loop() -> Any:
    loop = Loop()
    yield loop
    loop.close()


@pytest.fixture
def connected(loop: Loop) -> tuple[PunctualProtocol, Wire]:
    config = uvicorn.Config(PlainTextResponse("hi"), log_level="warning", ws="none")
    config.load()
    protocol = PunctualProtocol(config, ServerState(), {}, _loop=loop)  # type: ignore[arg-type]
    wire = Wire()
    protocol.connection_made(wire)
    return protocol, wire


@pytest.mark.parametrize("sent", [b"", REQUEST[:-2], REQUEST[:3]])
def test_half_a_request_is_waited_for_no_longer(
    connected: tuple[PunctualProtocol, Wire], loop: Loop, sent: bytes
) -> None:
    protocol, wire = connected
    for place in range(len(sent)):
        protocol.data_received(sent[place : place + 1])  # every byte is no new beginning
        loop.wait(SECONDS / 100)
    loop.wait(SECONDS * (0.99 - len(sent) / 100))
    assert not wire.is_closed
    loop.wait(SECONDS / 50)
    assert wire.is_closed and wire.written == b""


def test_a_whole_request_is_answered_and_the_next_one_has_its_own_time(
    connected: tuple[PunctualProtocol, Wire], loop: Loop
) -> None:
    protocol, wire = connected
    for _ in range(3):
        loop.wait(SECONDS / 2)
        protocol.data_received(REQUEST[:5])
        loop.wait(SECONDS / 3)
        protocol.data_received(REQUEST[5:])
        assert wire.written.endswith(b"hi") and not wire.is_closed
        wire.written = b""
        protocol.timeout_keep_alive_task.cancel()  # uvicorn's own time between requests


def test_a_body_that_does_not_end_is_waited_for_no_longer(
    connected: tuple[PunctualProtocol, Wire], loop: Loop
) -> None:
    protocol, wire = connected
    protocol.data_received(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n")
    for _ in range(20):
        loop.wait(SECONDS / 20)
        protocol.data_received(b"x")
    assert wire.is_closed


def test_a_connection_that_is_gone_is_not_waited_for(
    connected: tuple[PunctualProtocol, Wire], loop: Loop
) -> None:
    protocol, wire = connected
    protocol.connection_lost(None)
    wire.is_closed = False
    loop.wait(2 * SECONDS)
    assert not wire.is_closed
