"""What is asked of a served engine, and how: an OpenAI-compatible API over HTTP, or a stand-in."""

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, final
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import ProxyHandler, build_opener
from urllib.request import Request as HTTPRequest

from outrider.base.errors import OutriderError
from outrider.contract.sampling import Sampling

LOOPBACK = ("localhost", "127.0.0.1", "::1")
"""The names of this machine, whose prompts no proxy gets to see."""

FAILED = 500
"""From this status on a server says that it failed; below, that it refuses a request."""

ALL = -1
"""What servers call a top-k that keeps all tokens."""

Token = int | str
"""A token as an engine names it: by its id, or else by its characters."""


@final
@dataclass(frozen=True, slots=True)
class Request:
    """A request for texts.

    prompt: a text, the ids of its tokens, or chat messages, each a role and its content.
    sampling: its seed is not sent; `seed` is, unless it is None.
    penalties: `frequency_penalty`, `presence_penalty` or `repetition_penalty`, by name.
    n: how many texts to write.
    """

    prompt: str | tuple[int, ...] | tuple[tuple[str, str], ...]
    max_tokens: int
    sampling: Sampling = field(default_factory=Sampling)
    seed: int | None = None
    n: int = 1
    stop: tuple[str, ...] = ()
    penalties: Mapping[str, float] = field(default_factory=dict)


@final
@dataclass(frozen=True, slots=True)
class Choice:
    """A text that an engine wrote.

    tokens: those of the text, as far as the engine tells them.
    logprobs: the log-probability of each token, if the engine tells them.
    likeliest: at each position, the log-probabilities of the likeliest tokens.
    """

    text: str
    tokens: tuple[Token, ...] = ()
    logprobs: tuple[float, ...] | None = None
    likeliest: tuple[Mapping[Token, float], ...] = ()


class EngineError(OutriderError):
    """The engine failed, or is gone."""


class Client(ABC):
    """Asks an engine for texts."""

    @abstractmethod
    def ask(self, requests: Sequence[Request]) -> list[list[Choice]]:
        """Returns the texts of each request; several requests are in the engine at one time.

        Raises:
            EngineError: the engine failed, or is gone.
            OutriderError: it refused a request.
        """


@final
class Counted(Client):
    """Counts the requests that an engine gets, in `sent`."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.sent = 0

    def ask(self, requests: Sequence[Request]) -> list[list[Choice]]:
        self.sent += len(requests)
        return self._client.ask(requests)


@final
class OpenAIClient(Client):
    """An OpenAI-compatible server, by its completions, or chat completions for chat messages.

    url: its address, with or without `/v1`.
    model: the name that it serves the model by. Defaults to the first that it lists.
    logprobs: how many of the likeliest tokens it is asked for; 0 to ask for no log-probabilities.
    patience: the most seconds to wait for an answer.
    key: what the server wants to be told (`--api-key` of vLLM). Defaults to none.

    Raises `OutriderError` if it can't be reached.
    """

    def __init__(
        self,
        url: str,
        *,
        model: str | None = None,
        logprobs: int = 5,
        patience: float = 900,
        key: str | None = None,
    ) -> None:
        self._url = url.rstrip("/").removesuffix("/v1") + "/v1"
        self._patience, self._logprobs = patience, logprobs
        past_proxies = [ProxyHandler({})] if urlsplit(self._url).hostname in LOOPBACK else []
        self._opener = build_opener(*past_proxies)
        if key is not None:
            self._opener.addheaders.append(("Authorization", f"Bearer {key}"))
        self._model = model or str(self._call("/models")["data"][0]["id"])

    def ask(self, requests: Sequence[Request]) -> list[list[Choice]]:
        if len(requests) == 1:
            return [self._texts(requests[0])]
        with ThreadPoolExecutor(len(requests)) as pool:
            return list(pool.map(self._texts, requests))

    def _texts(self, request: Request) -> list[Choice]:
        sampling = request.sampling
        body: dict[str, Any] = {
            "model": self._model,
            "max_tokens": request.max_tokens,
            "temperature": sampling.temperature,
            # Said even where they change nothing: llama.cpp has other defaults.
            "top_p": sampling.top_p,
            "top_k": sampling.top_k or ALL,
            "min_p": sampling.min_p,
            "n": request.n,
            "return_token_ids": True,
            **request.penalties,
        }
        if request.seed is not None:
            body["seed"] = request.seed
        if request.stop:
            body["stop"] = list(request.stop)
        messages = [message for message in request.prompt if isinstance(message, tuple)]
        if messages:
            body["messages"] = [{"role": role, "content": content} for role, content in messages]
            if self._logprobs:
                body |= {"logprobs": True, "top_logprobs": self._logprobs}
            reply = self._call("/chat/completions", body)
            return [_choice(choice) for choice in reply["choices"]]
        body["prompt"] = request.prompt if isinstance(request.prompt, str) else list(request.prompt)
        if self._logprobs:
            body["logprobs"] = self._logprobs
        reply = self._call("/completions", body)
        return [_choice(choice) for choice in reply["choices"]]

    def _call(self, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        data = None if body is None else json.dumps(body).encode()
        request = HTTPRequest(self._url + path, data=data)
        request.add_header("Content-Type", "application/json")
        try:
            with self._opener.open(request, timeout=self._patience) as reply:
                content: dict[str, Any] = json.load(reply)
                return content
        except HTTPError as error:
            detail = " ".join(error.read().decode(errors="replace").split())
            kind = EngineError if error.code >= FAILED else OutriderError
            raise kind(f"{self._url}{path}: {error.code} {detail}") from error
        except (OSError, ValueError) as error:
            raise EngineError(f"{self._url}{path}: {error}: expected a server") from error


def _choice(choice: Mapping[str, Any]) -> Choice:
    """Returns a text. Its tokens are known by ids where the server tells them."""
    message = choice.get("message") or choice
    text = message.get("content") or message.get("text") or ""
    found = choice.get("logprobs") or {}
    if "content" in found:  # of a chat; llama.cpp's completions have it too
        return _from_entries(text, choice, found["content"] or [])
    names = tuple(choice.get("token_ids") or found.get("tokens") or ())
    likeliest = found.get("top_logprobs") or ()
    logprobs = found.get("token_logprobs")
    return Choice(
        text=text,
        tokens=names,
        logprobs=None if logprobs is None else tuple(logprobs),
        likeliest=tuple(
            _named(top or {}, name, token)
            for top, name, token in zip(likeliest, found.get("tokens") or (), names, strict=False)
        ),
    )


def _from_entries(
    text: str, choice: Mapping[str, Any], entries: Sequence[Mapping[str, Any]]
) -> Choice:
    """Returns a text whose tokens are listed one by one; llama.cpp gives each an `id`."""
    ids = choice.get("token_ids") or ()
    names = tuple(ids or [entry.get("id", entry["token"]) for entry in entries])
    return Choice(
        text=text,
        tokens=names,
        logprobs=tuple(entry["logprob"] for entry in entries) or None,
        likeliest=tuple(
            _named(
                {top.get("id", top["token"]): top["logprob"] for top in entry["top_logprobs"]},
                entry["token"],
                token,
            )
            for entry, token in zip(entries, names, strict=False)
        ),
    )


def _named(top: Mapping[str, float], characters: str, token: Token) -> dict[Token, float]:
    """Returns the likeliest tokens, with the one that was written under the name that it has."""
    return {token if name == characters else name: logprob for name, logprob in top.items()}
