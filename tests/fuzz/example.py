"""One combination of parts and settings, in plain values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Settings = Mapping[str, Any]
"""The name of a part under its role, and its settings beside it: {"drafter": "bigram", "order": 3}.
"""


@dataclass(frozen=True, kw_only=True)
class Example:
    """What one run does.

    target: as `fuzz.parts.make_target` takes it.
    prompts: the ids of each text. Two or more are also written in one batch.
    constraint: the settings of `fuzz.parts.Cycle`; None for no constraint.
    enumerate: sum the probability of every text, for small settings, instead of drawing texts.
    The others are options of `outrider.decode`.
    """

    target: Settings
    drafter: Settings
    verifier: Settings
    policy: Settings
    prompts: Sequence[Sequence[int]]
    sampling: Settings = field(default_factory=dict)
    gamma: int = 2
    budget: int | None = None
    max_new_tokens: int = 4
    stops: Sequence[str] = ()
    constraint: Settings | None = None
    enumerate: bool = False

    @property
    def greedy(self) -> bool:
        """Returns whether the text is written at temperature 0."""
        return not self.sampling.get("temperature")


@dataclass(frozen=True)
class Outcome:
    """The result of an example that broke no promise.

    kinds: what was checked: "greedy", "sampled", "lossy", "coupled", "enumerated" or "partly
        enumerated", and also "batch". Empty if a combination was refused.
    refused: the message of the refusal; None if it ran.
    """

    kinds: tuple[str, ...] = ()
    refused: str | None = None
