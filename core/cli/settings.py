"""The types and bounds of each command's settings; `conf/COMMAND.yaml` has the defaults.

What each one means stands in the YAML, which `--help` shows.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, final

from outrider.base.bounds import Budget, Count, DraftLength, Finite, NewFolder, Seconds, Seed
from outrider.base.expectations import AtLeast, OneOf, Passes
from outrider.plugins.roles import Listed

Part = Any
"""The config of a part, which `outrider.plugins.config.build` makes the part of."""

Reports = Annotated[Any, Listed("report")]

OWN: Any = {"verifier": Part, "policy": Part, "gamma": DraftLength, "budget": Budget | None}
"""What a listed drafter may have for itself, in place of the run's: parts, and numbers."""

Drafters = Annotated[Any, Listed("drafter", OWN)]

Lossy = Literal["allow", "refuse"]

Rate = Annotated[str, OneOf("outrider.cli.comparison:figure_names")]
"""A figure of a comparison."""


@final
@dataclass(frozen=True, slots=True)
class Condition:
    """What makes a run fail: a rate minus the baseline's is below a number, "alpha < -0.02"."""

    rate: Annotated[str, OneOf("outrider.cli.comparison:ratio_names")]
    below: Finite

    SPELLED: ClassVar[str] = r"(?P<rate>\w+)\s*<\s*(?P<below>[^\s<]+)"
    EXPECTED: ClassVar[str] = "a rate < a number, such as 'alpha < -0.02'"

    def __str__(self) -> str:
        return f"{self.rate} < {self.below:g}"


RunFolder = Annotated[
    str,
    Passes(lambda path: (Path(path).expanduser() / "run.json").is_file(), "the folder of a run"),
]


def is_shard(value: str) -> bool:
    """Returns whether a text names a part of the prompts: "2/8" is every eighth from the second."""
    number, _, count = value.partition("/")
    return number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)


Shard = Annotated[str, Passes(is_shard, 'a part of the prompts such as "2/8"')]


@dataclass(frozen=True, kw_only=True)
class Decoding:
    """What all commands that decode have in common."""

    target: Part
    verifier: Part
    policy: Part
    sampling: Part
    gamma: DraftLength
    budget: Budget | None
    max_new_tokens: Count
    chat: bool


@final
@dataclass(frozen=True, kw_only=True)
class Compare(Decoding):
    data: Part
    drafters: Drafters
    verifiers: Annotated[Any, Listed("verifier")]
    policies: Annotated[Any, Listed("policy")]
    protocol: Literal["overlap", "decode", "both"]
    shard: Shard | None
    turns: Count | None
    batch: Count
    together: Count
    repeats: Count
    quality: Annotated[Any, Listed("score", or_one=True)]
    reference: str | None
    pairs: bool
    by_task: bool
    draft_timeout: Seconds | None
    columns: Literal["all"] | list[Rate] | None
    objective: Rate | None
    baseline: RunFolder | None
    fail_if: Condition | None
    reports: Reports
    cache: bool
    resume: bool
    lossy: Lossy
    card: RunFolder | None
    out: NewFolder | None = None  # this and the next are those of `record`
    keep: Literal["all"] | Count | None = None


@final
@dataclass(frozen=True, kw_only=True)
class Generate(Decoding):
    drafter: Part
    constraint: Part = None
    prompt: Any
    draft_timeout: Seconds | None
    seed: Seed | None
    stop: str | list[str]
    stop_token_ids: list[Annotated[int, AtLeast(0)]]
    logprobs: Annotated[int, AtLeast(0)] | None
    penalties: dict[str, Any]
    lossy: Lossy


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
    score: Part = None
    thorough: bool
