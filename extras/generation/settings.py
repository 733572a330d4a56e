"""Settings of `outrider generate`: types and bounds; `conf/generate.yaml` says what they mean."""

from dataclasses import dataclass
from typing import Annotated, Any, final

from outrider.base.bounds import AtLeast, Seconds
from outrider.cli.settings import Decoding, Part


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
