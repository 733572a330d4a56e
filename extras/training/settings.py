"""Settings of `outrider train`: their types and bounds; `conf/train.yaml` says what they mean."""

from dataclasses import dataclass
from typing import Any, final

from outrider.base.bounds import Count, NewFolder, Seconds
from outrider.cli.settings import Decoding, Part, Reports


@final
@dataclass(frozen=True, kw_only=True)
class Train(Decoding):
    drafter: Part
    recipe: Part
    data: Part
    openings: list[str]
    question_tokens: Count
    writer: dict[str, Any] | None
    draft_timeout: Seconds | None
    out: NewFolder | None
    reports: Reports
