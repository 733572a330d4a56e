"""What a call of the target has brought, and the sums of many calls."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import final

ROOT = -1
"""The node before the first token of a draft: the context itself."""


@final
@dataclass(frozen=True, slots=True)
class Round:
    """The outcome of one target call.

    tokens: the ids added to the text, up to the one that ends it.
    origins: for each of them "accepted" (from the draft), "recovered" (from the target, after a
        rejection), "bonus" (from the target, after the end of the draft) or "plain" (from the
        target, without a draft).
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
    logprobs: "tuple[TokenLogprob, ...]" = ()

    @property
    def text(self) -> str:
        """Returns the characters that the tokens complete."""
        return "".join(self.pieces)


@final
@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """The log-probability of one token of the text, and of the likeliest tokens in its place.

    The distribution is the target's own: the softmax of its logits, before the run's sampling and
    before constraints. vLLM calls these `raw_logprobs`, its default. Logarithms are natural.

    logprob: of the token itself.
    rank: the rank of the token in the vocabulary, 1 for the likeliest.
    top: the likeliest tokens, as pairs of id and log-probability, the likeliest first. Tokens of
        probability zero are left out.
    """

    logprob: float
    rank: int
    top: tuple[tuple[int, float], ...] = ()


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

    def told(self, seconds: float) -> str:
        """Returns the counts in a sentence of two lines; without drafts, of one.

        seconds: what the text took.
        """
        if not self.rounds:
            return "no token was written"
        tokens = f"{self.emitted} token{'s' if self.emitted != 1 else ''}"
        calls = f"{self.rounds} call{'s' if self.rounds != 1 else ''}"
        rate = f"{self.block_efficiency:.2f} tokens per call, {self.emitted / seconds:.1f} tokens/s"
        drafts = f",\n{self.accepted} of {self.drafted} drafted tokens accepted"
        return f"{tokens} in {calls}: {rate}{drafts if self.drafted else ''}"
