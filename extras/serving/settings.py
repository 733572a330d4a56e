"""Settings of the commands for serving: their types and bounds."""

from dataclasses import dataclass
from typing import Annotated, Any, final

from outrider.base.bounds import Count
from outrider.base.expectations import AtLeast
from outrider.cli.settings import Decoding, Part
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
