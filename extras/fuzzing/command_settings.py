"""Settings of `outrider fuzz`: their types and bounds; `conf/fuzz.yaml` says what they mean."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal, final

from outrider.base.bounds import AtLeast, Count, Seconds


@final
@dataclass(frozen=True, kw_only=True)
class Fuzz:
    seconds: Seconds | None
    runs: Count | None
    seed: Annotated[int, AtLeast(0)]
    targets: Literal[
        "tables", "transformers", "both", "objects", "tokenizers", "templates", "configs", "wrong"
    ]
    drafters: list[str]
    example: Any
