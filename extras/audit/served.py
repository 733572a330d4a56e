"""Asks an engine over HTTP, by the OpenAI-compatible API, and keeps its answers."""

import json
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar, final

from outrider.base.errors import ConfigError
from outrider.base.folders import append_line
from outrider.base.http import HttpClient, Refusal, Unreadable, without_secrets
from outrider.base.terminal import remark
from outrider.data.jsonl import json_lines
from outrider.extras.audit.answers import choices_in, model_in
from outrider.extras.audit.client import Choice, Client, Request

REPORT = "audit.json"
"""What a run's folder has at its end."""

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

Found = TypeVar("Found")


@final
class Kept:
    """Answers in a run's folder, each with what was asked.

    A run in a folder with answers and without a report goes on: each answer is read once more
    before the server is asked again.
    """

    def __init__(self, folder: Path) -> None:
        self._path, self._lock = folder / "answers.jsonl", Lock()
        self._left: defaultdict[str, deque[str]] = defaultdict(deque)
        if (folder / REPORT).is_file():
            self._path.unlink(missing_ok=True)
        for _, line in json_lines(str(self._path)) if self._path.is_file() else ():
            if not isinstance(line, ConfigError):  # the last one may have been cut
                self._left[line["asked"]].append(line["answer"])

    def answer(self, asked: str, ask: Callable[[], str]) -> str:
        """Returns an answer that is left of an interrupted run, or a new one."""
        with self._lock:
            if left := self._left[asked]:
                return left.popleft()
        answer = ask()
        with self._lock:
            append_line(self._path, json.dumps({"asked": asked, "answer": answer}))
        return answer

    def advice(self) -> str | None:
        """Returns how an interrupted run goes on."""
        where = f"{self._path} keeps the answers: the same command with hydra.run.dir="
        return f"{where}{self._path.parent} goes on" if self._path.is_file() else None


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
            if self._is_strict is False or refusal.status not in (400, 422):
                raise
            try:
                texts = self._call(path, bare, choices_in)
            except Refusal:
                raise refusal from None
            self._is_strict = True
            left_out = ", ".join(sorted(body.keys() - bare.keys()))
            remark(f"{refusal}; from now on asked without {left_out}")
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
        messages = [{"role": it[0], "content": it[1]} for it in asked if isinstance(it, tuple)]
        body |= {"messages": messages} if messages else {"prompt": asked}
        if self._logprobs and messages:
            body |= {"logprobs": True, "top_logprobs": self._logprobs}
        elif self._logprobs:
            body["logprobs"] = self._logprobs
        return "/chat/completions" if messages else "/completions", body

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
