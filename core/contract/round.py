"""Round: the outcome of one target call."""

from dataclasses import dataclass
from typing import final

from outrider.contract.logprobs import TokenLogprob


@final
@dataclass(frozen=True, slots=True)
class Round:
    """The outcome of one target call.

    tokens: the ids added to the text, up to the one that ends it.
    origins: for each of them "accepted" (from the draft), "recovered" (from the target, after a
        rejection) or "bonus" (from the target, after the end of the draft).
    pieces: the characters that each token completes.
    draft, parents: the tokens of the draft, and the node that each continues (-1: the context).
    path: the nodes of the draft that were accepted.
    drafted, tested, accepted: numbers of draft tokens. A token after the first rejected one is not
        tested, and one after the end of the text is not counted at all.
    seconds: the time of each phase: draft, score and verify.
    stop: why the text ends here: "eos", "stop_token", "stop_string", "constraint",
        "max_new_tokens" or "max_length"; None if it goes on.
    logprobs: the target's log-probability of each token, if the run asked for them.
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
    logprobs: tuple[TokenLogprob, ...] = ()

    @property
    def text(self) -> str:
        """Returns the characters that the tokens complete."""
        return "".join(self.pieces)
