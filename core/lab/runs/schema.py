"""Schema: what the files of a run may hold, checked whenever one is read."""

import json
import math
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, StrictBool, StrictFloat, StrictInt, StrictStr

from outrider.base.errors import ConfigError, message_of
from outrider.base.json_values import json_of
from outrider.contract.draft import ROOT
from outrider.data.prompts import is_encodable
from outrider.lab.measuring.measurement import Measurement, Step
from outrider.lab.runs.files import FACTS, read_in

Config = dict[StrictStr, Any]


class _Sampling(BaseModel):
    temperature: float | None = None


class _Settings(BaseModel):
    gamma: Annotated[StrictInt, Field(ge=1)]
    max_new_tokens: StrictInt | None = None
    target: Config | None = None
    sampling: _Sampling | None = None
    verifier: Config | None = None
    policy: Config | None = None


class _Origin(BaseModel):
    version: StrictStr | None = None


class _Identity(BaseModel):
    outrider: _Origin | None = None
    libraries: dict[StrictStr, StrictStr] | None = None


class _Start(BaseModel):
    command: StrictStr | None = None
    date: StrictStr | None = None
    load: StrictFloat | StrictInt | None = None
    cores: StrictInt | None = None
    runs_by: dict[StrictStr, StrictStr] = {}


class _End(BaseModel):
    load: StrictFloat | StrictInt | None = None


class _Facts(BaseModel):
    """The entries of `run.json` that are read; others are kept as they are."""

    settings: _Settings
    drafters: Annotated[dict[StrictStr, Config], Field(min_length=1)]
    protocols: Annotated[list[Literal["overlap", "decode"]], Field(min_length=1)]
    questions: list[tuple[StrictStr, StrictInt, StrictStr]]
    lossless: dict[StrictStr, StrictBool]
    remember: list[StrictStr] = []
    target_itself: list[StrictStr] = []
    trained_on: dict[StrictStr, list[StrictStr]] = {}
    reference: StrictStr | None = None
    identity: _Identity | None = None
    starts: list[_Start] = []
    ends: list[_End] = []
    apart: list[StrictStr] = []


def read_facts(folder: Path) -> dict[str, Any]:
    """Returns the facts of a run.

    Raises:
        ConfigError: there is no run, or it is damaged; the message names the file and the entry.
    """
    content = read_in(folder, FACTS)
    if content is None:
        raise ConfigError(f"{str(folder)!r}: expected the folder of a run, with {FACTS} in it")
    try:
        facts = strict_json(content)
        checked = _Facts.model_validate(facts)
        missing = [name for name in checked.drafters if name not in checked.lossless]
        if missing:
            raise ValueError(f"lossless has no {missing[0]!r}")
        json.dumps(facts, ensure_ascii=False).encode()  # no halves of surrogate pairs
    except (ValueError, RecursionError) as error:
        reason = f"damaged, expected the facts of a run ({reason_of(error)})"
        raise ConfigError(f"{folder / FACTS}: {reason}") from error
    result: dict[str, Any] = facts
    return result


def read_measurement(
    line: bytes, facts: Mapping[str, Any], asked: AbstractSet[tuple[str, int]]
) -> Measurement:
    """Returns the measurement in a line; fields of later versions are ignored.

    asked: the prompt and turn of each question of the run.

    Raises `ValueError` if it is damaged, or not of this run; the message names the field.
    """
    try:
        measurement = Measurement.read(strict_json(line))
        for holds, expected in _rules(measurement, facts, asked):
            if not holds:
                raise ValueError(f"expected {expected}")
    except (ValueError, RecursionError) as error:
        raise ValueError(reason_of(error)) from error
    return measurement


def strict_json(content: bytes) -> Any:
    """Returns JSON as plain values; pydantic's own reader refuses halves of surrogate pairs."""

    def refuse(name: str) -> float:
        raise ValueError(f"{name} is no number")

    return json_of(content, parse_constant=refuse)


Rules = Iterator[tuple[bool, str]]
"""Whether something holds, and what is expected."""


def _rules(
    measurement: Measurement, facts: Mapping[str, Any], asked: AbstractSet[tuple[str, int]]
) -> Rules:
    """Yields how the parts of a measurement have to fit each other, and the run."""
    overlap, decoding = measurement.overlap, measurement.decoding
    held = [part for part in (overlap, decoding, measurement.error) if part is not None]
    yield len(held) == 1, "one of overlap, decoding and error"
    yield measurement.drafter in facts["drafters"], "a drafter of this run"
    yield (measurement.prompt, measurement.turn) in asked, "a question of this run"
    yield is_encodable(measurement.category), "a category in UTF-8"
    if overlap is not None:
        own = facts["drafters"][measurement.drafter].get("gamma")
        gamma = int(own or facts["settings"]["gamma"])
        for name in ("prefixes", "reached", "beta", "rounds", "tested", "accepted"):
            yield len(getattr(overlap, name)) >= gamma, f"{name} of {gamma} depths"
        yield from _lengths(overlap, "survived ended", "text text_p text_q")
    if decoding is not None:
        yield len(decoding.steps) > 0, "decoding.steps that are not empty"
        seconds = (decoding.seconds, decoding.plain_seconds, decoding.plain_call)
        yield min(seconds) > 0 and math.isfinite(sum(seconds)), "seconds above 0"
        for step in decoding.steps:
            yield from _rules_of(step)


def _rules_of(step: Step) -> Rules:
    yield from _lengths(step, "tokens origins pieces", "proposed parents")
    yield 0 <= step.accepted <= step.tested <= step.drafted, "accepted <= tested <= drafted"
    yield 0 <= len(step.siblings) - len(step.ranks) <= 1, "a rank for each accepted token"
    pairs = zip(step.ranks, step.siblings, strict=False)
    yield all(0 <= rank < width for rank, width in pairs), "ranks below the siblings"
    yield all(-1 <= parent < node for node, parent in enumerate(step.parents)), "parents"
    node = ROOT
    for rank in step.ranks if step.parents else ():
        children = [child for child, parent in enumerate(step.parents) if parent == node]
        yield rank < len(children), "ranks of nodes"
        node = children[rank]


def _lengths(part: Any, *groups: str) -> Rules:
    """Yields that the fields in each group are equally long."""
    for group in groups:
        first, *others = group.split()
        for name in others:
            is_same = len(getattr(part, name)) == len(getattr(part, first))
            yield is_same, f"{name} as long as {first}"


def reason_of(error: BaseException) -> str:
    """Returns an error in a few words: of many faults the first, with its place."""
    errors = getattr(error, "errors", None)
    if errors is None:
        return message_of(error)[:200]
    first = errors(include_url=False)[0]
    place = ".".join(map(str, first["loc"]))
    return f"{place}: {first['msg']}"[:200]
