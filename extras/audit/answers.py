"""Reads a server's answer into checked values, or says which of them is wrong, by its path."""

import json
import math
from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    Discriminator,
    Field,
    NonNegativeInt,
    Strict,
    StrictStr,
    Tag,
    ValidationError,
)

from outrider.extras.audit.client import Choice, Token

BY_ID = "token_id:"
"""What vLLM puts before an id where others have the characters of a token."""

ROUNDED = 0.05
"""By how much listed probabilities may exceed 1 by rounding; natural logarithms do not by more."""

FORMS = ("legacy", "listed")
"""The tags of the forms that log-probabilities have, which are no part of a path."""

Model = TypeVar("Model", bound=BaseModel)


def _log_probability(value: Any) -> float:
    """Returns a number from -inf to 0; null is what some servers write for -inf."""
    if value is None:
        return -math.inf
    is_number = isinstance(value, (int, float, str)) and not isinstance(value, bool)
    number = float(value) if is_number else math.nan
    if not number <= ROUNDED:
        raise ValueError("expected a log-probability, which is at most 0")
    return min(number, 0.0)


LogProb = Annotated[float, BeforeValidator(_log_probability)]
Id = Annotated[NonNegativeInt, Strict()]


class _Top(BaseModel):
    token: StrictStr
    logprob: LogProb
    id: Id | None = None


class _Entry(BaseModel):
    token: StrictStr
    logprob: LogProb | None = None
    id: Id | None = None
    top_logprobs: list[_Top] | None = None


class _Listed(BaseModel):
    """The form that chats have, and llama.cpp always."""

    content: list[_Entry] | None = None

    def place(self, index: int) -> str:
        return f"content[{index}].top_logprobs"


class _Legacy(BaseModel):
    """The form that completions have: dictionaries by name."""

    tokens: list[StrictStr]
    token_logprobs: list[LogProb | None] | None = None
    top_logprobs: list[dict[str, LogProb] | None] | None = None

    @property
    def content(self) -> list[_Entry]:
        absent: list[Any] = [None] * len(self.tokens)
        own, tops = self.token_logprobs or absent, self.top_logprobs or absent
        for name, column in (("token_logprobs", own), ("top_logprobs", tops)):
            if len(column) != len(self.tokens):
                raise ValueError(f"{name}: {len(column)} for {len(self.tokens)} tokens")
        rows = zip(self.tokens, own, tops, strict=True)
        return [
            _Entry(
                token=token,
                logprob=logprob,
                top_logprobs=[_Top(token=name, logprob=it) for name, it in (top or {}).items()],
            )
            for token, logprob, top in rows
        ]

    def place(self, index: int) -> str:
        return f"top_logprobs[{index}]"


def _form(listed: Any) -> str:
    return "legacy" if isinstance(listed, Mapping) and "tokens" in listed else "listed"


class _Part(BaseModel):
    text: StrictStr = ""


class _Function(BaseModel):
    name: StrictStr
    arguments: StrictStr | dict[str, Any] = ""


class _Call(BaseModel):
    function: _Function


class _Message(BaseModel):
    content: StrictStr | list[_Part] | None = None
    text: StrictStr | None = None
    refusal: StrictStr | None = None
    tool_calls: list[_Call] | None = None

    @property
    def words(self) -> str:
        """Returns all that it says: its text, or the tools that it calls, each as JSON."""
        said = self.content
        if isinstance(said, list):
            said = "".join(part.text for part in said)
        calls = (json.dumps(call.function.model_dump()) for call in self.tool_calls or ())
        return (said or self.text or self.refusal or "") + "".join(calls)


class _Choice(_Message):
    message: _Message | None = None
    logprobs: (
        Annotated[
            Annotated[_Legacy, Tag("legacy")] | Annotated[_Listed, Tag("listed")],
            Discriminator(_form),
        ]
        | None
    ) = None
    token_ids: list[Id] | None = None
    finish_reason: str | None = None


class _Reply(BaseModel):
    choices: Annotated[list[_Choice], Field(min_length=1)]


class _Model(BaseModel):
    id: StrictStr


class _Models(BaseModel):
    data: Annotated[list[_Model], Field(min_length=1)]


def model_in(answer: str) -> str:
    """Returns the first model that a server lists; raises `ValueError` with a path."""
    return _read(_Models, answer).data[0].id


def choices_in(answer: str) -> list[Choice]:
    """Returns the texts of an answer; raises `ValueError` with the path of what is wrong."""
    choices = []
    for place, choice in enumerate(_read(_Reply, answer).choices):
        try:
            choices.append(_choice(choice))
        except ValueError as error:
            raise ValueError(f"choices[{place}].logprobs.{error}") from None
    return choices


def _read(model: type[Model], answer: str) -> Model:
    try:
        reply = json.loads(answer)
    except ValueError as error:
        raise ValueError(f"no JSON ({error}): {answer[:60]!r}") from None
    if isinstance(reply, dict) and reply.get("error"):
        raise ValueError(f"error: {json.dumps(reply['error'], ensure_ascii=False)}")
    try:
        return model.model_validate(reply)
    except ValidationError as error:
        first = error.errors()[0]
        path = (f"[{at}]" if isinstance(at, int) else f".{at}" for at in first["loc"])
        path = (step for step in path if step.removeprefix(".") not in FORMS)
        words = first["msg"].removeprefix("Value error, ")
        raise ValueError(f"{''.join(path).removeprefix('.')}: {words}") from None


def _choice(choice: _Choice) -> Choice:
    """Returns a text. Its tokens are known by ids where the server tells them."""
    listed = choice.logprobs
    entries = [] if listed is None else listed.content or []
    names = [_name(entry) for entry in entries]
    tokens = names if choice.token_ids is None else choice.token_ids
    likeliest, shared = [], set[Token]()
    for index, (entry, own, token) in enumerate(zip(entries, names, tokens, strict=False)):
        named = [(_name(top), top.logprob) for top in entry.top_logprobs or ()]
        total = sum(math.exp(logprob) for _, logprob in named)
        if listed is not None and total > 1 + ROUNDED:
            cause = f"their probabilities sum to {total:.2f}: expected natural logarithms"
            raise ValueError(f"{listed.place(index)}: {cause}")
        told = [name for name, _ in named]
        shared |= {name for name in told if told.count(name) > 1}
        likeliest.append({token if name == own else name: it for name, it in named})
    logprobs = [entry.logprob for entry in entries if entry.logprob is not None]
    message = choice.message or choice
    return Choice(
        text=message.words,
        tokens=tuple(tokens),
        logprobs=tuple(logprobs) if entries and len(logprobs) == len(entries) else None,
        likeliest=tuple(likeliest) if any(likeliest) else (),
        ended=choice.finish_reason == "stop",
        shared=frozenset(shared),
    )


def _name(entry: _Top | _Entry) -> Token:
    """Returns a listed token's id, as llama.cpp and vLLM tell it, or its characters."""
    number = entry.token.removeprefix(BY_ID)
    if number != entry.token and number.isdecimal():
        return int(number)
    return entry.token if entry.id is None else entry.id
