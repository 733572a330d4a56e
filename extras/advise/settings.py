"""Settings of `outrider advise`: their types and bounds; `conf/advise.yaml` says what they mean."""

from dataclasses import dataclass
from typing import Annotated, Literal, final

from outrider.base.bounds import Count, Seconds
from outrider.base.expectations import AtLeast
from outrider.cli.settings import Decoding, Drafters, Part

Engine = Literal["outrider", "vllm", "sglang", "llama.cpp"]


@final
@dataclass(frozen=True, kw_only=True)
class Advise(Decoding):
    data: Part
    drafters: Drafters
    engine: Engine
    concurrency: Annotated[list[Count], AtLeast(1)]
    contexts: list[Count]
    costs: dict[str, Annotated[list[Seconds], AtLeast(2)]]
