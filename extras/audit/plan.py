"""Which requests an audit sends: each kind alone, and all kinds in one batch."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import final

from outrider.contract.sampling import Sampling
from outrider.extras.audit.client import Request

KINDS: dict[str, tuple[Sampling, dict[str, float]]] = {
    "temperature 1": (Sampling(temperature=1.0), {}),
    "truncated": (Sampling(temperature=0.7, top_k=5, top_p=0.9), {}),
    "penalties": (Sampling(temperature=1.0), {"frequency_penalty": 1.0, "presence_penalty": 2.0}),
    "repetition penalty": (Sampling(temperature=1.0), {"repetition_penalty": 2.0}),
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


def batches(prompt: Request, skip: Collection[str]) -> list[list[Asked]]:
    """Returns the batches of one cycle: each kind alone, and all kinds at one time.

    prompt: a request whose prompt and length are taken.
    skip: kinds that are left out, and "n" if no request is to have several texts.
    """
    kinds = {**KINDS, GREEDY: (Sampling(), {})}
    alone = [
        Asked(kind, True, replace(prompt, sampling=sampling, penalties=penalties))
        for kind, (sampling, penalties) in kinds.items()
        if kind not in skip
    ]
    firm = [replace(it, alone=False) for it in alone if it.kind == GREEDY]
    sampled = [replace(it, alone=False) for it in alone if it.kind != GREEDY]
    # The first kind twice over: texts of one request, and beside each other, are independent.
    several = [replace(it, request=replace(it.request, n=4)) for it in sampled[:1]]
    first = sampled[:1] if "n" in skip else several
    return [*([it] for it in alone), [*firm, *first, *sampled[1:], *sampled[:1]]]
