"""The types and bounds of each command's settings; `conf/COMMAND.yaml` has the defaults.

What each one means stands in the YAML, which `--help` shows.
"""

from dataclasses import dataclass
from typing import Annotated, Any, Literal, final

from outrider.base.bounds import Count, OneOf, Seconds, Within

Part = Any
"""The config of a part, which `outrider.plugins.config.build` makes the part of."""

Parts = Any
"""A list of parts: names, or mappings with settings; see `option_configs`."""

Rate = Annotated[str, OneOf("outrider.cli.comparison:figure_names")]
"""A figure of a comparison."""


@final
@dataclass(frozen=True, slots=True)
class Shard:
    """A part of the prompts: "2/8" is every eighth from the second on."""

    def __contains__(self, value: str) -> bool:
        number, _, count = value.partition("/")
        return number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)

    def __str__(self) -> str:
        return 'a part of the prompts such as "2/8"'


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
class Compare(Decoding):
    data: Part
    drafters: Parts
    verifiers: Parts
    policies: Parts
    protocol: Literal["overlap", "decode", "both"]
    shard: Annotated[str, Shard()] | None
    workers: Count | None
    cluster: Part
    turns: Count | None
    batch: Count
    together: Count
    repeats: Count
    quality: Parts
    precision: Annotated[float, Within("(0, 1)")] | None
    reference: str | None
    pairs: bool
    by_task: bool
    draft_timeout: Seconds | None
    sort: Rate | None
    objective: Rate | None
    reports: Parts
    live: bool
    cache: bool
    resume: bool
