"""Settings of the command `audit`: their types and bounds."""

from dataclasses import dataclass
from typing import Annotated, Literal, final

from outrider.base.bounds import AtLeast, Count, NonNegative, Seconds, Within
from outrider.cli.settings import Part, Reports

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
