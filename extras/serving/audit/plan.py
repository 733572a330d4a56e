"""Which requests an audit sends: each kind alone, and all kinds in one batch."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

from outrider.contract.sampling import Sampling
from outrider.extras.serving.audit.client import Request

KINDS: dict[str, tuple[Sampling, dict[str, float]]] = {
    "temperature 1": (Sampling(temperature=1.0), {}),
    "temperature 0.7, top-k 5, top-p 0.9": (Sampling(temperature=0.7, top_k=5, top_p=0.9), {}),
    "penalties": (Sampling(temperature=1.0), {"frequency_penalty": 1.0}),
}
"""The kinds of sampled requests: how they are sampled, and with which penalties."""

GREEDY = "greedy"


@final
@dataclass(frozen=True, slots=True)
class Asked:
    """A request of the plan.

    kind: a key of `KINDS`, or `GREEDY`.
    alone: whether the engine has no other request at the time.
    """

    kind: str
    alone: bool
    request: Request

    @property
    def name(self) -> str:
        """Returns what a report calls it."""
        return f"{self.kind}, {'alone' if self.alone else 'in a batch'}"


def names() -> list[str]:
    """Returns the names of all sampled requests."""
    request = Request("", 1)
    return [Asked(kind, alone, request).name for alone in (True, False) for kind in KINDS]


def batches(prompts: Sequence[Request], cycle: int) -> list[list[Asked]]:
    """Returns the batches of one cycle.

    prompts: requests whose prompt and length are taken, in turn.
    """
    base = prompts[cycle % len(prompts)]
    sampled = [
        replace(base, sampling=sampling, penalties=penalties)
        for sampling, penalties in KINDS.values()
    ]
    greedy = replace(base, sampling=Sampling())
    alone = [[Asked(kind, True, request)] for kind, request in zip(KINDS, sampled, strict=True)]
    mixed = [Asked(kind, False, request) for kind, request in zip(KINDS, sampled, strict=True)]
    first, *others = mixed
    # The first kind twice over: texts of one request, and beside each other, are independent.
    mixed = [Asked(GREEDY, False, greedy), replace(first, request=replace(first.request, n=2))]
    return [*alone, [Asked(GREEDY, True, greedy)], [*mixed, *others, first]]


def size(prompts: Sequence[Request]) -> int:
    """Returns the number of requests of one cycle."""
    return sum(map(len, batches(prompts, 0)))
