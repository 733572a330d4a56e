"""Settings of the commands for serving: their types and bounds."""

from dataclasses import dataclass
from typing import Any, final

from outrider.base.bounds import Count
from outrider.cli.settings import Decoding, Part, Parts


@final
@dataclass(frozen=True, kw_only=True)
class ServeConfig(Decoding):
    drafter: Part


@final
@dataclass(frozen=True, kw_only=True)
class ServeCheck(Decoding):
    data: Part
    drafters: Parts
    vllm: str
    options: list[Any]
    clients: Count
    turns: Count
