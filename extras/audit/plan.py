"""Which requests an audit sends: each kind alone, and all kinds in one batch."""

from collections.abc import Collection, Sequence
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


@final
@dataclass(frozen=True, slots=True)
class Plan:
    """What is sent in turn.

    prompts: requests whose prompt and length are taken, in turn.
    skip: kinds that are left out, and "n" if no request is to have several texts.
    """

    prompts: Sequence[Request]
    skip: Collection[str] = ()

    @property
    def kinds(self) -> list[str]:
        """Returns the kinds of sampled requests that are sent."""
        return [kind for kind in KINDS if kind not in self.skip]

    @property
    def names(self) -> list[str]:
        """Returns the names of all sampled requests."""
        request = Request("", 1)
        return [Asked(kind, alone, request).name for alone in (True, False) for kind in self.kinds]

    @property
    def size(self) -> int:
        """Returns the number of requests of one cycle."""
        return sum(map(len, self.batches(0)))

    def batches(self, cycle: int) -> list[list[Asked]]:
        """Returns the batches of one cycle."""
        base = self.prompts[cycle % len(self.prompts)]
        requests = {
            kind: replace(base, sampling=KINDS[kind][0], penalties=KINDS[kind][1])
            for kind in self.kinds
        }
        alone = [[Asked(kind, True, request)] for kind, request in requests.items()]
        greedy = replace(base, sampling=Sampling())
        firm = (
            []
            if GREEDY in self.skip
            else [Asked(GREEDY, is_alone, greedy) for is_alone in (True, False)]
        )
        # The first kind twice over: texts of one request, and beside each other, are independent.
        first, *others = [Asked(kind, False, request) for kind, request in requests.items()]
        several = replace(first, request=replace(first.request, n=1 if "n" in self.skip else 4))
        return [*alone, *([asked] for asked in firm[:1]), [*firm[1:], several, *others, first]]
