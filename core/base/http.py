"""Asks a server over HTTP with httpx; the package `httpx2` comes with `huggingface_hub`."""

import logging
import time
from collections.abc import Mapping
from ipaddress import ip_address
from typing import Any, final

import httpx2

from outrider.base.errors import LONGEST, OutriderError

FAILED = 500
"""From this status on a server says that it failed; below, that it refuses a request."""

BUSY = (429, 503)
"""The statuses of a server that wants to be asked again later."""

PAUSE = 1
"""Seconds until then, unless it says another number."""

logging.getLogger("httpx2").setLevel(logging.WARNING)  # it logs each request


class ServerError(OutriderError):
    """A server failed, is gone, or answers what no server of its kind does."""


class Refusal(OutriderError):
    """A server refuses a request."""


@final
class HttpClient:
    """A server's address, and how it is asked. Each request has a connection of its own.

    key: what the server authorises its clients by. Defaults to none.
    patience: the most seconds to wait for an answer, and to ask a busy server again.
    hint: ends the message of every error.

    Raises `ServerError` if the address is none.
    """

    def __init__(
        self, url: str, *, key: str | None = None, patience: float = 900, hint: str = ""
    ) -> None:
        self._url, self._patience, self._hint = url, patience, hint
        try:
            host = httpx2.URL(url).host
        except httpx2.InvalidURL as error:
            raise self._error("", f"{error}: expected a server") from error
        self._client = httpx2.Client(
            headers={} if key is None else {"Authorization": f"Bearer {key}"},
            timeout=patience,
            trust_env=not is_loopback(host),  # no proxy gets to see this machine's prompts
            follow_redirects=True,
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=0),
        )

    def text(self, path: str, body: Mapping[str, Any] | None = None) -> str:
        """Returns the answer to a request, which is a POST if it has a body.

        Raises:
            ServerError: the server failed, or is gone.
            Refusal: it refused the request.
        """
        method, end = "GET" if body is None else "POST", time.monotonic() + self._patience
        while True:
            try:
                response = self._client.request(method, self._url + path, json=body)
            except (httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
                cause = f"{error or type(error).__name__}: expected a server"
                raise self._error(path, cause) from error
            if response.is_success:
                return response.content.decode(errors="replace")
            pause = response.headers.get("Retry-After", "")
            seconds = int(pause) if pause.isdecimal() else PAUSE
            if response.status_code not in BUSY or time.monotonic() + seconds >= end:
                kind = ServerError if response.status_code >= FAILED else Refusal
                detail = response.content.decode(errors="replace")
                raise self._error(path, f"{response.status_code} {detail}", kind)
            time.sleep(seconds)

    def unexpected_answer(self, path: str, answer: str) -> OutriderError:
        """Returns an error for an answer that is not of the form that it should have."""
        return self._error(path, f"expected what OpenAI's API answers: {answer}")

    def _error(
        self, path: str, detail: str, kind: type[OutriderError] = ServerError
    ) -> OutriderError:
        words = " ".join(detail.split())
        words = words if len(words) <= LONGEST else f"{words[:LONGEST]}..."
        return kind(f"{self._url}{path}: {words}{self._hint}")


def is_loopback(host: str) -> bool:
    """Returns whether a name or number is this machine's."""
    try:
        number = ip_address(host)
    except ValueError:
        return host.rstrip(".").lower() == "localhost"
    number = getattr(number, "ipv4_mapped", None) or number
    return number.is_loopback or number.is_unspecified
