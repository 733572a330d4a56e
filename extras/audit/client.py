"""What is asked of an engine, each kind alone and all in one batch, and what it answers."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Any, final

from outrider.contract.sampling import Sampling

Token = int | str
"""A token as an engine names it: by its id, or else by its characters."""

GREEDY = "greedy"

KINDS: dict[str, tuple[Sampling, dict[str, float]]] = {
    "temperature 1": (Sampling(temperature=1.0), {}),
    "truncated": (Sampling(temperature=0.7, top_k=5, top_p=0.9), {}),
    "penalties": (Sampling(temperature=1.0), {"frequency_penalty": 1.0, "presence_penalty": 2.0}),
    "repetition penalty": (Sampling(temperature=1.0), {"repetition_penalty": 2.0}),
    GREEDY: (Sampling(), {}),
}
"""The kinds of requests: how they are sampled, and with which penalties."""


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
class Asked:
    """A request of the plan.

    kind: a key of `KINDS`.
    alone: whether the engine has no other request at the time.
    """

    kind: str
    alone: bool
    request: Request

    @property
    def name(self) -> str:
        """Returns what a report calls it."""
        return f"{self.kind}, {'alone' if self.alone else 'in a batch'}"


def batches(prompt: Request, skip: Collection[str]) -> list[list[Asked]]:
    """Returns the batches of one cycle: each kind alone, and all kinds at one time.

    prompt: a request whose prompt and length are taken.
    skip: kinds that are left out, and "n" if no request is to have several texts.
    """
    alone = [
        Asked(kind, True, replace(prompt, sampling=sampling, penalties=penalties))
        for kind, (sampling, penalties) in KINDS.items()
        if kind not in skip
    ]
    firm = [replace(it, alone=False) for it in alone if it.kind == GREEDY]
    sampled = [replace(it, alone=False) for it in alone if it.kind != GREEDY]
    # The first kind twice over: texts of one request, and beside each other, are independent.
    count = 1 if "n" in skip else 4
    first = [replace(it, request=replace(it.request, n=count)) for it in sampled[:1]]
    return [*([it] for it in alone), [*firm, *first, *sampled[1:], *sampled[:1]]]


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

        Raises `ServerError` if the engine fails again and again, and `Refusal` if it refuses one.
        """


def parting(one: Sequence[Any], two: Sequence[Any]) -> int | None:
    """Returns the first place at which two texts differ, or one has ended; None for the same."""
    pairs = enumerate(zip_longest(one, two))
    return next((place for place, (a, b) in pairs if a != b), None)
