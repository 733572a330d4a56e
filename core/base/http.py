"""Asks a server over HTTP with httpx; the package `httpx2` comes with `huggingface_hub`."""

import logging
import re
import time
from collections.abc import Mapping
from ipaddress import ip_address
from typing import Any, final

import httpx2

from outrider.base.errors import LONGEST, OutriderError

FAILED = 500
"""From this status on a server, or what stands before it, fails; below, it refuses a request."""

BUSY = (429, 503)
"""The statuses of a server that wants to be asked again later."""

PASSING = (408, 425)
"""Statuses of a refusal that says nothing of the request; like a failure, it may pass."""

TRIES = 3
"""How often a request that fails is sent."""

PAUSE = 1
"""Seconds until a request is sent again, unless the server says another number."""

logging.getLogger("httpx2").setLevel(logging.WARNING)  # it logs each request


class ServerError(OutriderError):
    """A server failed, is gone, or answers what no server of its kind does."""


class Unreadable(ServerError):
    """A server's answer is not of the form that it should have."""


class Refusal(OutriderError):
    """A server refuses a request, with a `status`."""

    status = 0


def without_secrets(url: str) -> str:
    """Returns an address without its password and the values of its query.

    >>> without_secrets("http://me:word@host/v1?key=1")
    'http://me:[hidden]@host/v1?key=[hidden]'
    """
    return re.sub(r"(?<==)[^&=]+", "[hidden]", re.sub(r"(//[^/@]*?:)[^/]*@", r"\1[hidden]@", url))


@final
class HttpClient:
    """A server's address, and how it is asked. Each request has a connection of its own.

    url: where it is, with or without `/v1`; a query is sent with each request.
    key: what the server authorises its clients by. Defaults to none.
    patience: the most seconds to wait for an answer, and to ask a busy server again.
    hint: ends the message of every error.

    Raises `ServerError` if the address is none.
    """

    def __init__(
        self, url: str, *, key: str | None = None, patience: float = 900, hint: str = ""
    ) -> None:
        root, mark, query = url.partition("?")
        self._root, self._query = root.rstrip("/").removesuffix("/v1"), mark + query
        self._patience, self._hint, self._has_answered = patience, hint, False
        try:
            host = httpx2.URL(url).host
        except httpx2.InvalidURL as error:
            raise self._error("", f"{error}: expected a server") from error
        self._client = httpx2.Client(
            headers={} if key is None else {"Authorization": f"Bearer {key}"},
            timeout=patience,
            trust_env=not is_loopback(host),  # no proxy gets to see this machine's prompts
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=0),
        )

    def text(self, path: str, body: Mapping[str, Any] | None = None) -> str:
        """Returns the answer to a request, which is a POST if it has a body.

        A failure that may pass, of the server or on the way to it, has the request sent again.

        Raises:
            ServerError: the server failed each time, or is gone.
            Refusal: it refused the request.
        """
        end, tries = time.monotonic() + self._patience, 0
        while True:
            tries += 1
            pause: float = PAUSE
            try:
                response = self._sent(path, body)
            except (httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
                cause = f"{error or type(error).__name__}: expected a server"
                failure = self._error(path, cause)
                is_passing = isinstance(error, httpx2.TransportError) and self._has_answered
                is_passing &= not isinstance(error, httpx2.UnsupportedProtocol)
                failure.__cause__ = error
            else:
                self._has_answered, status = True, response.status_code
                if response.is_success:
                    return response.content.decode("utf-8-sig", errors="replace")
                kind = ServerError if status >= FAILED else Refusal
                detail = response.content.decode(errors="replace")
                failure = self._error(path, f"{status} {detail}", kind)
                if isinstance(failure, Refusal):
                    failure.status = status
                later = response.headers.get("Retry-After", "")
                pause = int(later) if later.isdecimal() else PAUSE
                is_passing = status >= FAILED or status in PASSING
                tries -= status in BUSY
                is_passing |= status in BUSY
            if not is_passing or tries == TRIES or time.monotonic() + pause >= end:
                raise failure
            time.sleep(pause)

    def _sent(self, path: str, body: Mapping[str, Any] | None) -> httpx2.Response:
        """Returns the answer; an address that names another one is refused, and the other named."""
        url = httpx2.URL(self._root + path + self._query)
        response = self._client.request("GET" if body is None else "POST", url, json=body)
        if response.has_redirect_location:
            place = without_secrets(str(url.join(response.headers["Location"])))
            raise self._error(path, f"moved to {place}: expected that address", Refusal)
        return response

    def unexpected_answer(self, path: str, answer: str) -> OutriderError:
        """Returns an error for an answer that is not of the form that it should have."""
        return self._error(path, f"expected what OpenAI's API answers: {answer}", Unreadable)

    def _error(
        self, path: str, detail: str, kind: type[OutriderError] = ServerError
    ) -> OutriderError:
        words = " ".join(detail.split())
        words = words if len(words) <= LONGEST else f"{words[:LONGEST]}..."
        return kind(f"{without_secrets(self._root)}{path}: {words}{self._hint}")


def is_loopback(host: str) -> bool:
    """Returns whether a name or number is this machine's."""
    try:
        number = ip_address(host)
    except ValueError:
        return host.rstrip(".").lower() == "localhost"
    number = getattr(number, "ipv4_mapped", None) or number
    return number.is_loopback or number.is_unspecified
