"""Settings of the command `audit`: their types and bounds."""

import json
from dataclasses import dataclass
from typing import Annotated, Literal, final

from outrider.base.bounds import Count, ExistingFile, NonNegative, Seconds
from outrider.base.errors import ConfigError
from outrider.base.expectations import AtLeast, Within
from outrider.cli.settings import Part, Reports

Skipped = Literal[
    "temperature 1", "truncated", "penalties", "repetition penalty", "greedy",
    "n", "ends", "seeds", "stop strings", "log-probabilities",
]  # fmt: skip
"""What an audit may leave out."""


@final
@dataclass(frozen=True, kw_only=True)
class Audit:
    url: str | None
    texts: list[ExistingFile]
    task: str | None
    temperature: NonNegative
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


def settings_of(words: list[str]) -> list[str]:
    """Returns the settings that `audit URL` and `audit texts A.jsonl B.jsonl` stand for."""
    if words[:1] == ["texts"] and len(words) == 3:
        return [f"texts={json.dumps(words[1:])}"]
    if len(words) > 1 or words == ["texts"]:
        raise ConfigError(f"{' '.join(words)}: expected URL, or texts A.jsonl B.jsonl")
    return [f"url={json.dumps(word)}" for word in words]
