"""Settings of `outrider beams`: their types and bounds; `conf/beams.yaml` says what they mean."""

from dataclasses import dataclass
from typing import Any, Literal, final

from outrider.base.bounds import Count
from outrider.cli.settings import Part


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
