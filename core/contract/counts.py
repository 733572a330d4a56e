"""Counts: the numbers of rounds and tokens, and the rates computed from them."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import final

from outrider.contract.round import Round


@final
@dataclass(frozen=True, slots=True)
class Counts:
    """The numbers behind every rate. Add them up over prompts first, then take the rate.

    rounds: target calls (R).
    drafted: draft tokens proposed (P).
    tested: draft tokens tested, the accepted ones and the first one rejected (T).
    accepted: draft tokens accepted (A).
    emitted: tokens added to the text.
    """

    rounds: int = 0
    drafted: int = 0
    tested: int = 0
    accepted: int = 0
    emitted: int = 0

    @classmethod
    def of(cls, rounds: Iterable[Round]) -> "Counts":
        """Returns the counts of some rounds."""
        total = cls()
        for round in rounds:
            total += cls(1, round.drafted, round.tested, round.accepted, len(round.tokens))
        return total

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(
            self.rounds + other.rounds,
            self.drafted + other.drafted,
            self.tested + other.tested,
            self.accepted + other.accepted,
            self.emitted + other.emitted,
        )

    @property
    def alpha_tested(self) -> float | None:
        """Returns A / T, the acceptance rate that decoding sees; None if nothing was tested."""
        return self.accepted / self.tested if self.tested else None

    @property
    def acceptance_rate(self) -> float | None:
        """Returns A / P; None if nothing was drafted. It falls as gamma grows, and is not alpha."""
        return self.accepted / self.drafted if self.drafted else None

    @property
    def block_efficiency(self) -> float | None:
        """Returns the tokens written per target call, between 1 and gamma + 1.

        That is (A + R) / R, less the tokens after the last one accepted where a text ends there.
        """
        return self.emitted / self.rounds if self.rounds else None
