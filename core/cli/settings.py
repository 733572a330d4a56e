"""The types and bounds of each command's settings; `conf/COMMAND.yaml` has the defaults.

What each one means stands in the YAML, which `--help` shows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, final

from outrider.base.bounds import AtLeast, Count, Like, NonNegative, Seconds, Share, Within

Part = Any
"""The config of a part, which `outrider.plugins.config.build` makes the part of."""

Parts = Any
"""A list of parts: names, or mappings with settings; see `option_configs`."""

Score = Literal["rouge2", "pass1"]
"""A key of `outrider.lab.measuring.quality.SCORES`."""


TABLE1 = "table1"
"""The layout that is a table; any other is a figure, the place of a function that draws it."""

Layout = Annotated[
    str, Like(f"{TABLE1}|.*:.*", f"{TABLE1}, or the place of a figure, module:function")
]


@dataclass(frozen=True, kw_only=True)
class Decoding:
    """What all commands that decode have in common."""

    target: Part
    verifier: Part
    policy: Part
    sampling: Part
    gamma: Count
    budget: Count | None
    max_new_tokens: Count
    chat: bool


@final
@dataclass(frozen=True, kw_only=True)
class Generate(Decoding):
    drafter: Part
    constraint: Part = None
    prompt: Any
    draft_timeout: Seconds | None
    stop: list[str]
    stop_token_ids: list[Annotated[int, AtLeast(0)]]
    logprobs: Annotated[int, AtLeast(0)] | None
    penalties: dict[str, Any]


@final
@dataclass(frozen=True, kw_only=True)
class Beams:
    target: Part
    drafter: Part
    prompt: Any
    width: Count
    draft_width: Count | None
    gamma: Count
    max_new_tokens: Count
    length_penalty: float
    early_stopping: bool | Literal["never"]
    num_return_sequences: Count
    chat: bool


@final
@dataclass(frozen=True, kw_only=True)
class Compare(Decoding):
    data: Part
    drafters: Parts
    verifiers: Parts
    policies: Parts
    protocol: Literal["overlap", "decode", "both"]
    shard: str | None
    turns: Count | None
    batch: Count
    together: Count
    repeats: Count
    quality: Score | list[Score] | None
    precision: Annotated[float, Within("(0, 1)")] | None
    reference: str | None
    pairs: bool
    by_task: bool
    draft_timeout: Seconds | None
    sort: str | None
    objective: str | None
    reports: Parts
    live: bool
    cache: bool
    resume: bool


@final
@dataclass(frozen=True, kw_only=True)
class Check:
    drafter: Part = None
    verifier: Part = None
    policy: Part = None
    target: Part = None
    engine: Part = None
    constraint: Part = None
    data: Part = None
    recipe: Part = None
    report: Part = None
    thorough: bool


@final
@dataclass(frozen=True, kw_only=True)
class Theory:
    alpha: Share | Annotated[Sequence[Share], AtLeast(1)]
    gamma: Annotated[int, AtLeast(0)] | Annotated[Sequence[Annotated[int, AtLeast(0)]], AtLeast(1)]
    c: NonNegative | Annotated[Sequence[NonNegative], AtLeast(1)]
    c_hat: NonNegative | None
    profile: str | None
    layout: Layout | None
    out: str | None
