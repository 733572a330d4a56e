"""Settings of the commands for serving: their types and bounds."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal, final

from outrider.base.bounds import AtLeast, Count, NonNegative, Seconds, Within
from outrider.cli.settings import Decoding, Part, Reports
from outrider.plugins.roles import Listed


@final
@dataclass(frozen=True, kw_only=True)
class ServeConfig(Decoding):
    drafter: Part


@final
@dataclass(frozen=True, kw_only=True)
class ServeCheck(Decoding):
    data: Part
    drafters: Annotated[Any, Listed("drafter")]
    vllm: str
    options: list[Any]
    clients: Count
    turns: Count
    audit: Annotated[int, AtLeast(0)]


Skipped = Literal[
    "temperature 1",
    "truncated",
    "penalties",
    "repetition penalty",
    "greedy",
    "n",
    "ends",
    "seeds",
    "stop strings",
    "log-probabilities",
]
"""What an audit may leave out."""


@final
@dataclass(frozen=True, kw_only=True)
class Audit:
    url: str
    baseline: str | None
    model: str | None
    data: Part
    target: Part | None = None
    chat: bool
    requests: Annotated[int, AtLeast(11)]
    max_new_tokens: Count
    level: Annotated[float, Within("(0, 1)")]
    tie: NonNegative
    logprobs: Annotated[int, AtLeast(0)]
    reports: Reports
    skip: list[Skipped]
    key: str | None
    patience: Seconds
