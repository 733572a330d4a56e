"""Parts that answer with a random object, or hand one to the pen."""

from collections.abc import Mapping
from typing import Any

import torch

from outrider.contract.constraint import Constraint
from outrider.contract.context import Context
from outrider.contract.drafter import Drafter
from outrider.contract.pen import Pen
from outrider.contract.policy import Policy
from outrider.contract.sampling import Sampling
from outrider.contract.target import Session
from outrider.contract.verifier import Verdict, Verifier
from outrider.decoding.generation import generate
from outrider.extras.fuzzing.values import SIZE, check_tokens, small_target
from outrider.targets.tabular import TabularTarget

PEN = ("write", "draw", "branch", "limit", "ask", "apart", "faster", "redraw", "token", "guide")
ANSWERS: Mapping[str, tuple[str, ...]] = {
    "policy": ("notice", "depth", "more", "observe", "reset"),
    "constraint": ("begin", "logits", "ends", "steering"),
    "drafter": ("propose", "propose_batch", "open", "kind", "needs", "trees", "remembered"),
    "verifier": ("verify", "takes", "lossless", "coupled"),
    "target": ("begin", "open", "encode", "computing", "vocab_size", "max_length", "eos", "offers"),
    "session": ("score", "commit"),
}
SAID = ("vocab_size", "max_length", "eos", "offers")
FACTS = ("kind", "needs", "trees", "remembered", "takes", "lossless", "coupled", *SAID)
"""Answers that are attributes, and no methods."""


class Draws(Drafter):
    """Draws from a flat distribution."""

    def propose(self, context: Context, pen: Pen) -> None:
        while pen.open:
            pen.draw(torch.zeros(pen.vocab_size))


class _Full(Policy):
    def depth(self, gamma: int) -> int:
        return gamma


class _Nothing(Verifier):
    takes = frozenset({"chain"})
    lossless = True

    def verify(self, *_: Any) -> Verdict:
        return Verdict((), 0)


class _Even(Session):
    def score(self, draft: Any) -> torch.Tensor:
        return torch.zeros(len(draft) + 1, SIZE)

    def commit(self, verdict: Any) -> None:
        pass


BASES: Mapping[str, type[Any]] = {
    "policy": _Full,
    "constraint": Constraint,
    "drafter": Draws,
    "verifier": _Nothing,
    "target": TabularTarget,
    "session": _Even,
}


def pen(name: str, value: Any) -> None:
    """Has a drafter call a method of its pen with a value."""

    def propose(self: Any, context: Context, pen: Pen) -> None:
        arguments = (torch.zeros(SIZE), value) if name == "branch" else (value,)
        getattr(pen, name)(*arguments)

    drafter = type("Mine", (Draws,), {"propose": propose})()
    check_tokens(generate(small_target(), [0, 1], drafter, max_new_tokens=3).tokens)


def answer(name: str, value: Any) -> None:
    """Has a part answer with a value: a method that returns it, or a claim that is it."""
    role, _, name = name.partition(".")

    def answered(self: Any, *_: Any, **__: Any) -> Any:
        return value

    part = type("Mine", (BASES[role],), {} if name in FACTS else {name: answered})
    parts: dict[str, Any] = {"target": small_target(), "drafter": Draws(), "verifier": _Nothing()}
    if role == "session":
        parts["target"].open = lambda *_: part()
    else:
        parts[role] = part(SIZE) if role == "target" else part()
        if name in FACTS:
            _say(parts[role], name, value)
    target, drafter, verifier = (parts.pop(role) for role in ("target", "drafter", "verifier"))
    sampling = Sampling(temperature=1)
    options = {"max_new_tokens": 3, "sampling": sampling, **parts}
    check_tokens(generate(target, [0, 1], drafter, verifier, **options).tokens)


def _say(part: Any, name: str, value: Any) -> None:
    """Has a part say something of itself."""
    kind = type(part)
    if isinstance(getattr(kind, name, None), property):
        setattr(kind, name, property(lambda _: value))
    else:
        setattr(part, name, value)


def verdict(name: str, value: Any) -> None:
    """Has a rule return a verdict that holds a value."""
    answer("verifier.verify", Verdict(**{"accepted": (), "next_token": 0, name: value}))
