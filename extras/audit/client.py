"""What is asked of an engine, and what it answers."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, final

from outrider.contract.sampling import Sampling

Token = int | str
"""A token as an engine names it: by its id, or else by its characters."""


@final
@dataclass(frozen=True, slots=True)
class Request:
    """A request for texts.

    prompt: a text, the ids of its tokens, or chat messages, each a role and its content.
    sampling: its seed is not sent; `seed` is, unless it is None.
    penalties: `frequency_penalty`, `presence_penalty` or `repetition_penalty`, by name.
    n: how many texts to write.
    more: what else is sent, such as tools or a grammar, by name.
    """

    prompt: str | tuple[int, ...] | tuple[tuple[str, str], ...]
    max_tokens: int
    sampling: Sampling = field(default_factory=Sampling)
    seed: int | None = None
    n: int = 1
    stop: tuple[str, ...] = ()
    penalties: Mapping[str, float] = field(default_factory=dict)
    more: Mapping[str, Any] = field(default_factory=dict)


@final
@dataclass(frozen=True, slots=True)
class Choice:
    """A text that an engine wrote.

    tokens: those of the text, as far as the engine tells them.
    logprobs: the log-probability of each token, if the engine tells them.
    likeliest: at each position, the log-probabilities of the likeliest tokens.
    ended: whether it ended before its length was reached.
    shared: the names among them that are known to stand for several tokens.
    """

    text: str
    tokens: tuple[Token, ...] = ()
    logprobs: tuple[float, ...] | None = None
    likeliest: tuple[Mapping[Token, float], ...] = ()
    ended: bool = False
    shared: frozenset[Token] = frozenset()

    @property
    def parts(self) -> tuple[Token, ...]:
        """Returns its tokens, or its characters if those are not told."""
        return self.tokens or tuple(self.text)


class Client(ABC):
    """Asks an engine for texts."""

    @abstractmethod
    def ask(self, requests: Sequence[Request]) -> list[list[Choice]]:
        """Returns the texts of each request; several requests are in the engine at one time.

        Raises:
            ServerError: the engine failed again and again, or is gone.
            Refusal: it refused a request.
        """


def parting(one: Sequence[Any], two: Sequence[Any]) -> int | None:
    """Returns the first place at which two texts differ, or one has ended; None for the same."""
    pairs = enumerate(zip_longest(one, two))
    return next((place for place, (a, b) in pairs if a != b), None)
