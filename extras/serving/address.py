"""Asks a server over HTTP, and says in one line what is wrong with an answer."""

import json
import time
from collections.abc import Mapping
from http.client import HTTPException
from ipaddress import ip_address
from typing import Any, final
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import ProxyHandler, Request, build_opener

from outrider.base.errors import LONGEST, OutriderError

FAILED = 500
"""From this status on a server says that it failed; below, that it refuses a request."""

BUSY = (429, 503)
"""The statuses of a server that wants to be asked again later."""

PAUSE = 1
"""Seconds until then, unless it says another number."""


class EngineError(OutriderError):
    """A server failed, is gone, or answers what no server of its kind does."""


class Refusal(OutriderError):
    """A server refuses a request."""


@final
class Address:
    """Where a server is, and how it is asked.

    key: what it wants to be told by those who may ask. Defaults to none.
    patience: the most seconds to wait for an answer, and to ask a busy server again.
    hint: ends the message of every error.
    """

    def __init__(
        self, url: str, *, key: str | None = None, patience: float = 900, hint: str = ""
    ) -> None:
        self._url, self._patience, self._hint = url, patience, hint
        try:
            past_proxies = [ProxyHandler({})] if is_here(urlsplit(url).hostname or "") else []
        except ValueError as error:
            raise EngineError(self._line("", f"{error}: expected a server")) from error
        self._opener = build_opener(*past_proxies)
        self._headers = {"Content-Type": "application/json"}
        if key is not None:
            self._headers["Authorization"] = f"Bearer {key}"

    def text(self, path: str, body: Mapping[str, Any] | None = None) -> str:
        """Returns the answer to a question, which is posted if it has a body.

        Raises:
            EngineError: the server failed, or is gone.
            Refusal: it refused the request.
        """
        data = None if body is None else json.dumps(body).encode()
        end = time.monotonic() + self._patience
        while True:
            try:
                request = Request(self._url + path, data, self._headers)
                with self._opener.open(request, timeout=self._patience) as reply:
                    return str(reply.read().decode(errors="replace"))
            except HTTPError as error:
                pause = error.headers.get("Retry-After", "")
                seconds = int(pause) if pause.isdecimal() else PAUSE
                if error.code in BUSY and time.monotonic() + seconds < end:
                    time.sleep(seconds)
                    continue
                detail = error.read().decode(errors="replace")
                kind = EngineError if error.code >= FAILED else Refusal
                raise kind(self._line(path, f"{error.code} {detail}")) from error
            except (OSError, ValueError, HTTPException) as error:
                cause = f"{error or type(error).__name__}: expected a server"
                raise EngineError(self._line(path, cause)) from error

    def odd(self, path: str, answer: str) -> EngineError:
        """Returns an error for an answer that is not of the form that it should have."""
        return EngineError(self._line(path, f"expected what OpenAI's API answers: {answer}"))

    def _line(self, path: str, detail: str) -> str:
        words = " ".join(detail.split())
        words = words if len(words) <= LONGEST else f"{words[:LONGEST]}..."
        return f"{self._url}{path}: {words}{self._hint}"


def is_here(host: str) -> bool:
    """Returns whether a name or number is this machine's, whose prompts no proxy gets to see."""
    try:
        number = ip_address(host)
    except ValueError:
        return host.rstrip(".") == "localhost"
    number = getattr(number, "ipv4_mapped", None) or number
    return number.is_loopback or number.is_unspecified
