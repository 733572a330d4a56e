"""Asks an engine over HTTP, by the OpenAI-compatible API."""

import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar, final

from outrider.base.http import HttpClient, Refusal, Unreadable, without_secrets
from outrider.base.terminal import plain, remarks
from outrider.extras.audit.answers import choices_in, model_in
from outrider.extras.audit.client import Choice, Client, Request
from outrider.extras.audit.kept import Kept

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

UNKNOWN = (400, 422)
"""The statuses by which a server refuses a setting that it does not know."""

Found = TypeVar("Found")


@final
class OpenAIClient(Client):
    """An OpenAI-compatible server, by its completions, or chat completions for chat messages.

    url: its address, with or without `/v1`.
    model: the name that it serves the model by. Defaults to the first that it lists.
    logprobs: how many of the likeliest tokens it is asked for; 0 to ask for no log-probabilities.
    kept: has the answers of an interrupted run, and gets those of this one.
    more: `key`, `patience` and `hint` of its `HttpClient`.

    Raises `OutriderError` if it can't be reached.
    """

    def __init__(
        self,
        url: str,
        *,
        model: str | None = None,
        logprobs: int = 5,
        kept: Kept | None = None,
        **more: Any,
    ) -> None:
        self._http, self._kept, self._place = HttpClient(url, **more), kept, without_secrets(url)
        self._logprobs = logprobs
        self._is_strict: bool | None = None  # not known yet
        self._model = model or self._call("/models", None, model_in)

    def ask(self, requests: Sequence[Request]) -> list[list[Choice]]:
        if len(requests) == 1:
            return [self._texts(requests[0])]
        with ThreadPoolExecutor(len(requests)) as pool:
            return list(pool.map(self._texts, requests))

    def _texts(self, request: Request) -> list[Choice]:
        path, body = self._body(request)
        bare = {name: value for name, value in body.items() if NEUTRAL.get(name) != value}
        if self._is_strict:
            return self._asked_twice(path, bare)
        try:
            texts = self._asked_twice(path, body)
            self._is_strict = False
        except Refusal as refusal:
            if self._is_strict is False or refusal.status not in UNKNOWN:
                raise
            try:
                texts = self._call(path, bare, choices_in)
            except Refusal:
                raise refusal from None
            self._is_strict = True
            left_out = ", ".join(sorted(body.keys() - bare.keys()))
            remarks().print(plain(f"{refusal}; from now on asked without {left_out}"))
        return texts

    def _asked_twice(self, path: str, body: Mapping[str, Any]) -> list[Choice]:
        """Returns the texts; a refusal, or an answer that can't be read, has to repeat."""
        try:
            return self._call(path, body, choices_in)
        except (Refusal, Unreadable):
            return self._call(path, body, choices_in)

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
            **request.more,
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
        self, path: str, body: Mapping[str, Any] | None, read: Callable[[str], Found]
    ) -> Found:
        """Returns what `read` finds in an answer."""
        path = f"/v1{path}"
        ask = partial(self._http.text, path, body)
        try:
            if self._kept is None or body is None:
                return read(ask())
            return read(self._kept.answer(json.dumps([self._place, path, body]), ask))
        except ValueError as error:
            raise self._http.unexpected_answer(path, str(error)) from error
