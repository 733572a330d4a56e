"""Connections: those that do not bring a whole request in time are closed."""

from asyncio import TimerHandle, Transport
from typing import final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

SECONDS = 10
"""The time in which a request has to be there, from its first byte or the connection on."""

UNFINISHED = (h11.IDLE, h11.SEND_BODY)
"""The states of a client that has not sent a whole request."""


@final
class PunctualProtocol(H11Protocol):
    """HTTP without slow clients; uvicorn itself waits for the rest of a request for ever."""

    _late: TimerHandle | None = None
    _begun: RequestResponseCycle | None = None

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._expect()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._forget()

    def _expect(self) -> None:
        is_whole = self.conn.their_state not in UNFINISHED
        if is_whole or self.cycle is not self._begun:
            self._begun = self.cycle
            self._forget()
        if not is_whole and self._late is None:
            self._late = self.loop.call_later(SECONDS, self.transport.close)

    def _forget(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None
