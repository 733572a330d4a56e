"""Settings of `outrider advise`: their types and bounds; `conf/advise.yaml` says what they mean."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal, final

from outrider.base.bounds import Count, Seconds
from outrider.base.expectations import AtLeast
from outrider.cli.settings import Decoding, Drafters, Part

Server = Literal["outrider", "vllm", "sglang", "llama.cpp"]


Costs = Annotated[list[Seconds], AtLeast(2)]
"""The seconds of a round of plain decoding, then of a round by draft length."""


@final
@dataclass(frozen=True, kw_only=True)
class Advise(Decoding):
    data: Part
    drafters: Drafters
    server: Server
    concurrency: Annotated[list[Count], AtLeast(1)]
    contexts: list[Count]
    costs: dict[str, Any] | None
