"""Outcome: what one run of the fuzzer came to."""

from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of an example that broke no promise.

    kinds: what was checked: "greedy", "sampled", "lossy", "coupled", "enumerated" or "partly
        enumerated", and also "batch" and "interrupted"; of an attempt, its kind. Empty if a
        combination was refused.
    refused: the message of the refusal; None if it ran.
    texts: how many texts were written with drafts.
    """

    kinds: tuple[str, ...] = ()
    refused: str | None = None
    texts: int = 0
