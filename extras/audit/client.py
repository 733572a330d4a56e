"""What is asked of a served engine, and how: an OpenAI-compatible API over HTTP, or a stand-in."""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar, final

from outrider.base.http import HttpClient, Refusal, ServerError
from outrider.contract.sampling import Sampling

ALL = -1
"""What servers call a top-k that keeps all tokens."""

NEUTRAL: dict[str, Any] = {
    "top_p": 1.0,
    "top_k": ALL,
    "min_p": 0.0,
    "n": 1,
    "return_token_ids": True,
    "return_tokens_as_token_ids": True,
}
"""Settings that change no text. They are said all the same, since llama.cpp has other defaults; a
server that refuses some, as TGI a top-p of 1, is asked without them."""

BY_ID = "token_id:"
"""What vLLM puts before an id where others have the characters of a token."""

Found = TypeVar("Found")
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
    ended: whether it ended before its length was reached.
    """

    text: str
    tokens: tuple[Token, ...] = ()
    logprobs: tuple[float, ...] | None = None
    likeliest: tuple[Mapping[Token, float], ...] = ()
    ended: bool = False


class Client(ABC):
    """Asks an engine for texts."""

    @abstractmethod
    def ask(self, requests: Sequence[Request]) -> list[list[Choice]]:
        """Returns the texts of each request; several requests are in the engine at one time.

        Raises:
            ServerError: the engine failed, or is gone.
            Refusal: it refused a request.
        """


@final
class Counted(Client):
    """Counts the requests that an engine gets, in `sent`, and keeps its `failure`."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.sent = 0
        self.failure: ServerError | None = None

    def ask(self, requests: Sequence[Request]) -> list[list[Choice]]:
        self.sent += len(requests)
        try:
            return self._client.ask(requests)
        except ServerError as error:
            self.failure = error
            raise


@final
class OpenAIClient(Client):
    """An OpenAI-compatible server, by its completions, or chat completions for chat messages.

    url: its address, with or without `/v1`.
    model: the name that it serves the model by. Defaults to the first that it lists.
    logprobs: how many of the likeliest tokens it is asked for; 0 to ask for no log-probabilities.
    more: `key`, `patience` and `hint` of its `HttpClient`.

    Raises `OutriderError` if it can't be reached.
    """

    def __init__(
        self, url: str, *, model: str | None = None, logprobs: int = 5, **more: Any
    ) -> None:
        self._http = HttpClient(url.rstrip("/").removesuffix("/v1") + "/v1", **more)
        self._logprobs, self._is_strict = logprobs, False
        self._model = model or self._call("/models", None, lambda reply: reply["data"][0]["id"])

    def ask(self, requests: Sequence[Request]) -> list[list[Choice]]:
        if len(requests) == 1:
            return [self._texts(requests[0])]
        with ThreadPoolExecutor(len(requests)) as pool:
            return list(pool.map(self._texts, requests))

    def _texts(self, request: Request) -> list[Choice]:
        path, body = self._body(request)
        bare = {name: value for name, value in body.items() if NEUTRAL.get(name) != value}
        if self._is_strict:
            return self._call(path, bare, _choices)
        try:
            return self._call(path, body, _choices)
        except Refusal as refusal:
            try:
                texts = self._call(path, bare, _choices)
            except Refusal:
                raise refusal from None
            self._is_strict = True
            return texts

    def _body(self, request: Request) -> tuple[str, dict[str, Any]]:
        """Returns where a request is sent to, and what it says."""
        sampling, asked = request.sampling, request.prompt
        body: dict[str, Any] = NEUTRAL | {
            "model": self._model,
            "max_tokens": request.max_tokens,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "top_k": sampling.top_k or ALL,
            "min_p": sampling.min_p,
            "n": request.n,
            **request.penalties,
        }
        if request.seed is not None:
            body["seed"] = request.seed
        if request.stop:
            body["stop"] = list(request.stop)
        messages = [message for message in asked if isinstance(message, tuple)]
        if messages:
            body["messages"] = [{"role": role, "content": content} for role, content in messages]
            listed = {"logprobs": True, "top_logprobs": self._logprobs}
        else:
            body["prompt"] = asked if isinstance(asked, str) else list(asked)
            listed = {"logprobs": self._logprobs}
        path = "/chat/completions" if messages else "/completions"
        return path, body | (listed if self._logprobs else {})

    def _call(
        self, path: str, body: Mapping[str, Any] | None, read: Callable[[Any], Found]
    ) -> Found:
        """Returns what `read` finds in an answer."""
        answer = self._http.text(path, body)
        try:
            return read(json.loads(answer))
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise self._http.unexpected_answer(path, answer) from error


def _choices(reply: Mapping[str, Any]) -> list[Choice]:
    return [_choice(choice) for choice in reply["choices"]]


def _choice(choice: Mapping[str, Any]) -> Choice:
    """Returns a text. Its tokens are known by ids where the server tells them."""
    message = choice.get("message") or choice
    entries = _entries(choice.get("logprobs") or {})
    ids = choice.get("token_ids") or map(_name, entries)
    tokens = tuple(token if isinstance(token, int) else str(token) for token in ids)
    logprobs = [entry["logprob"] for entry in entries]
    likeliest = []
    for entry, token in zip(entries, tokens, strict=False):
        own, tops = _name(entry), entry["top_logprobs"]
        named = ((_name(top), float(top["logprob"])) for top in tops)
        likeliest.append({token if name == own else name: logprob for name, logprob in named})
    return Choice(
        text=str(message.get("content") or message.get("text") or ""),
        tokens=tokens,
        logprobs=None if not entries or None in logprobs else tuple(map(float, logprobs)),
        likeliest=tuple(likeliest) if any(likeliest) else (),
        ended=choice.get("finish_reason") == "stop",
    )


def _entries(listed: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Returns what is listed of each token in the form that chats have, and llama.cpp always."""
    if "tokens" not in listed:
        return listed.get("content") or ()
    tokens, absent = listed["tokens"], [None] * len(listed["tokens"])
    logprobs, tops = listed.get("token_logprobs"), listed.get("top_logprobs")
    return [
        _entry(token, logprob)
        | {"top_logprobs": list(map(_entry, top or (), (top or {}).values()))}
        for token, logprob, top in zip(tokens, logprobs or absent, tops or absent, strict=True)
    ]


def _entry(token: str, logprob: float | None) -> dict[str, Any]:
    return {"token": token, "logprob": logprob}


def _name(entry: Mapping[str, Any]) -> Token:
    """Returns a listed token's id, as llama.cpp and vLLM tell it, or its characters."""
    characters = str(entry["token"])
    number = characters.removeprefix(BY_ID)
    if number != characters and number.isdecimal():
        return int(number)
    token: Token = entry.get("id", characters)
    return token
