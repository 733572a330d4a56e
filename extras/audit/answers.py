"""Reads a server's answer into checked values, or says which of them is wrong, by its path."""

import json
import math
from typing import Annotated, Any, Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    NonNegativeInt,
    Strict,
    StrictStr,
    ValidationError,
    model_validator,
)

from outrider.extras.audit.client import Choice, Token

BY_ID = "token_id:"
"""What vLLM puts before an id where others have the characters of a token."""

ROUNDED = 0.05
"""By how much listed probabilities may exceed 1 by rounding; natural logarithms do not by more."""

Model = TypeVar("Model", bound=BaseModel)


def _log_probability(value: Any) -> float:
    """Returns a number from -inf to 0."""
    is_number = isinstance(value, (int, float, str)) and not isinstance(value, bool)
    number = float(value) if is_number else math.nan
    if not number <= ROUNDED:
        raise ValueError("expected a log-probability, which is at most 0")
    return min(number, 0.0)


def _natural(listed: Any) -> Any:
    """Returns log-probabilities of one position; raises `ValueError` for those of another base."""
    numbers = listed.values() if isinstance(listed, dict) else [top.logprob for top in listed]
    if (total := sum(math.exp(it) for it in numbers if it is not None)) > 1 + ROUNDED:
        raise ValueError(f"their probabilities sum to {total:.2f}: expected natural logarithms")
    return listed


LogProb = Annotated[float, BeforeValidator(_log_probability)] | None
Id = Annotated[NonNegativeInt, Strict()]


class _Entry(BaseModel):
    token: StrictStr
    id: Id | None = None
    logprob: LogProb = None
    top_logprobs: Annotated[list["_Entry"], AfterValidator(_natural)] | None = None

    @property
    def name(self) -> Token:
        """Returns its id, as llama.cpp and vLLM tell it, or its characters."""
        number = self.token.removeprefix(BY_ID)
        if number != self.token and number.isdecimal():
            return int(number)
        return self.token if self.id is None else self.id


class _Listed(BaseModel):
    """Log-probabilities: an entry a token in chats and llama.cpp, a column a field in others."""

    content: list[_Entry] | None = None
    tokens: list[StrictStr] | None = None
    token_logprobs: list[LogProb] | None = None
    top_logprobs: list[Annotated[dict[str, LogProb], AfterValidator(_natural)] | None] | None = None

    @model_validator(mode="after")
    def _fill(self) -> Self:
        if self.tokens is None:
            return self
        absent: list[Any] = [None] * len(self.tokens)
        own, tops = self.token_logprobs or absent, self.top_logprobs or absent
        for name, column in (("token_logprobs", own), ("top_logprobs", tops)):
            if len(column) != len(self.tokens):
                raise ValueError(f"{name}: {len(column)} for {len(self.tokens)} tokens")
        self.content = []
        for token, logprob, top in zip(self.tokens, own, tops, strict=True):
            listed = [_Entry(token=name, logprob=it) for name, it in (top or {}).items()]
            self.content.append(_Entry(token=token, logprob=logprob, top_logprobs=listed))
        return self


class _Call(BaseModel):
    class Function(BaseModel):
        name: StrictStr
        arguments: StrictStr | dict[str, Any] = ""

    function: Function


class _Message(BaseModel):
    class Part(BaseModel):
        text: StrictStr = ""

    content: StrictStr | list[Part] | None = None
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
    logprobs: _Listed | None = None
    token_ids: list[Id] | None = None
    finish_reason: str | None = None

    def read(self) -> Choice:
        """Returns the text. Its tokens are known by ids where the server tells them."""
        entries = [] if self.logprobs is None else self.logprobs.content or []
        names = [entry.name for entry in entries]
        tokens = names if self.token_ids is None else self.token_ids
        likeliest: list[dict[Token, float]] = []
        shared: set[Token] = set()
        for entry, token in zip(entries, tokens, strict=False):
            # Null is what some servers write for -inf.
            told = [
                (top.name, -math.inf if top.logprob is None else top.logprob)
                for top in entry.top_logprobs or ()
            ]
            row = {token if name == entry.name else name: logprob for name, logprob in told}
            shared |= {name for name in row if sum(name == other for other, _ in told) > 1}
            likeliest.append(row)
        logprobs = [entry.logprob for entry in entries if entry.logprob is not None]
        return Choice(
            text=(self.message or self).words,
            tokens=tuple(tokens),
            logprobs=tuple(logprobs) if entries and len(logprobs) == len(entries) else None,
            likeliest=tuple(likeliest) if any(likeliest) else (),
            ended=self.finish_reason == "stop",
            shared=frozenset(shared),
        )


class _Reply(BaseModel):
    choices: Annotated[list[_Choice], Field(min_length=1)]


class _Models(BaseModel):
    class Model(BaseModel):
        id: StrictStr

    data: Annotated[list[Model], Field(min_length=1)]


def model_in(answer: str) -> str:
    """Returns the first model that a server lists; raises `ValueError` with a path."""
    return _read(_Models, answer).data[0].id


def choices_in(answer: str) -> list[Choice]:
    """Returns the texts of an answer; raises `ValueError` with the path of what is wrong."""
    return [choice.read() for choice in _read(_Reply, answer).choices]


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
        path = "".join(f"[{at}]" if isinstance(at, int) else f".{at}" for at in first["loc"])
        words = first["msg"].removeprefix("Value error, ")
        raise ValueError(f"{path.removeprefix('.')}: {words}") from None
