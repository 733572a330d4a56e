"""A round: what one target call brought."""

from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True, slots=True)
class Round:
    """What one target call brought.

    tokens: the ids emitted, nothing past a stop.
    origins: who wrote each: "accepted" (the drafter), "recovered" (the target, after a
        rejection) or "bonus" (the target, where the draft ended).
    pieces: the characters that each completes.
    draft: the tokens and parents that were proposed.
    path: the nodes of the draft that were accepted.
    drafted, tested, accepted: counts of draft tokens. A token after the first rejected one is
        not tested, and one past a stop does not count at all.
    seconds: of the phases draft, score and verify.
    stop: why the text ends here ("eos", "stop_string", "constraint", "max_new_tokens", "max_length"),
        or None.
    """

    tokens: tuple[int, ...]
    origins: tuple[str, ...]
    pieces: tuple[str, ...]
    draft: tuple[int, ...]
    parents: tuple[int, ...]
    path: tuple[int, ...]
    drafted: int
    tested: int
    accepted: int
    seconds: dict[str, float]
    stop: str | None = None

    @property
    def text(self) -> str:
        """Returns the characters that the round's tokens complete."""
        return "".join(self.pieces)
