"""What a campaign has run, by target, by what was checked, and by refusal."""

from collections import Counter
from dataclasses import dataclass, field
from typing import final

from outrider.extras.fuzzing.attempt import Attempt
from outrider.extras.fuzzing.example import Example
from outrider.extras.fuzzing.outcome import Outcome


@final
@dataclass(slots=True)
class Tally:
    """What a campaign has done so far.

    runs: the number of examples that were run, refused ones included.
    texts: the number of texts that were written with drafts.
    kinds, targets: the number of examples of each kind (see `Outcome`), and of each kind of target
        or of attempt.
    refused: the number of examples by the message of the refusal, without its digits.
    failure: the smallest example that failed, and why; None if none did.
    """

    runs: int = 0
    texts: int = 0
    seconds: float = 0.0
    kinds: Counter[str] = field(default_factory=Counter)
    targets: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    failure: tuple[Example | Attempt, str] | None = None

    def add(self, example: Example | Attempt, outcome: Outcome) -> None:
        """Counts one example."""
        self.runs += 1
        self.texts += outcome.texts
        self.kinds.update(outcome.kinds)
        self.targets[example.subject] += 1
        if outcome.refused is not None:
            self.refused["".join(c for c in outcome.refused if not c.isdigit())] += 1
