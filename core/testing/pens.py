"""Facts about the pen: what it records and what it refuses."""

from collections.abc import Callable
from functools import partial
from typing import Any, final

import torch
from torch import Tensor

from outrider.base.errors import DrafterError
from outrider.contract.chance import Chance, SampledChance
from outrider.contract.constraint import Constraint, Guide
from outrider.contract.draft import Draft
from outrider.contract.pen import Pen
from outrider.contract.sampling import Sampling
from outrider.testing.facts import assert_close, assert_is, assert_refused
from outrider.testing.stage import SAMPLED, VOCAB_SIZE

LOGITS = torch.tensor([0.3, 1.0, 2.0, -1.0], dtype=torch.float64)


def assert_records() -> None:
    """Asserts that the distributions recorded are those of the run's sampling, and stay so."""
    for buffer, tolerance in ((LOGITS.clone(), 1e-12), (LOGITS.float(), 1e-6)):
        pen = new_pen(sampling=Sampling(temperature=2.0, top_k=3))
        pen.draw(buffer)
        buffer.fill_(0.0)  # a drafter may use it again
        draft = pen.finish()
        (probs,), (logits,) = draft.probs, draft.logits
        assert probs is not None and logits is not None, "a draw without a distribution or logits"
        assert_close("a logit that the drafter wrote over", float(logits[0]), 0.3, tolerance)
        weights = (LOGITS / 2).exp() * torch.tensor([1, 1, 1, 0])
        for token, p in enumerate((weights / weights.sum()).tolist()):
            what = f"the probability recorded for token {token}, of logits {buffer.dtype}"
            assert_close(what, float(probs[token]), p, tolerance)
        assert_is("the precision of a recorded distribution", probs.dtype, torch.float64)
        assert_close("the sum of a recorded distribution", float(probs.sum()), 1.0, 1e-15)


def assert_greedy() -> None:
    """Asserts that draws at temperature 0 are written point masses."""
    pen = new_pen(sampling=Sampling(), budget=9)
    assert_is("the greedy draw", pen.draw(LOGITS), int(LOGITS.argmax()))
    assert_is("greedy siblings without replacement", len(pen.branch(LOGITS, 3)), 1)
    assert_is("greedy siblings with replacement", len(pen.branch(LOGITS, 2, replacement=True)), 2)
    assert_is("the distributions of greedy draws", pen.finish().probs, (None,) * 4)


def assert_guided() -> None:
    """Asserts that a draw keeps to the constraint, unless that leaves nothing."""
    pen = new_pen(guide=Guide(_Only(1), [0]))
    pen.draw(LOGITS)
    without = LOGITS.index_fill(0, torch.tensor([1]), float("-inf"))
    pen.draw(without)
    first, second = pen.finish().probs
    assert first is not None and second is not None, "a draw without a distribution"
    assert_is("a distribution under a constraint", first.tolist(), [0.0, 1.0, 0.0, 0.0])
    expected = without.softmax(-1).tolist()
    assert_is("a distribution that a constraint leaves nothing of", second.tolist(), expected)


def assert_bounds() -> None:
    """Asserts that what no draft may hold is refused."""
    infinity, nan = float("inf"), float("nan")
    for logits in (
        *(torch.zeros(5), torch.zeros(3), torch.zeros(1, VOCAB_SIZE)),
        *(torch.tensor([0.0, value, 0.0, 0.0]) for value in (infinity, nan)),
        torch.full((VOCAB_SIZE,), -infinity),
    ):
        draw = partial(Pen.draw, logits=logits)
        for sampling in (SAMPLED, Sampling()):
            assert_refuses(f"draws from {logits.tolist()}", new_pen(sampling=sampling), draw)
    for token in (-1, VOCAB_SIZE):
        assert_refuses(f"writes token {token}", new_pen(), partial(Pen.write, token=token))
        assert_refuses(f"asks token {token}", new_pen(), partial(Pen.ask, token=token))
    assert_refuses("writes after no node", new_pen(), partial(Pen.write, token=0, after=0))
    assert_refuses("asks after no question", new_pen(), partial(Pen.ask, token=0, after=0))
    assert_refuses("asks after no node", new_pen(), partial(Pen.ask, token=0, node=0))
    assert_refuses("writes past gamma", written(new_pen(gamma=2, budget=9), 2), write)
    assert_refuses("writes past the budget", written(new_pen(budget=1), 1), write)
    pair = partial(Pen.branch, logits=LOGITS, width=2)
    assert_refuses("branches past the budget", new_pen(budget=1), pair)
    limited = new_pen()
    for depth in (1, 2):
        limited.limit(depth)
    assert_refuses("writes past a limit", written(limited, 1), write)


def assert_stops() -> None:
    """Asserts that the policy sees what was submitted, and ends the draft."""
    seen: list[tuple[int, ...]] = []

    def more(draft: Draft) -> bool:
        seen.append(draft.tokens)
        return len(draft) < 2

    pen = new_pen(more=more)
    while pen.open:
        pen.write(len(pen))
    assert_is("what the policy was shown", seen, [(0,), (0, 1)])
    assert_refuses("writes after the policy stopped", pen, write)
    assert_is("a draft that the policy stopped", pen.finish().tokens, (0, 1))


def new_pen(chance: Chance | None = None, sampling: Sampling = SAMPLED, **options: Any) -> Pen:
    """Returns a pen for `VOCAB_SIZE` tokens, of gamma 3 unless the options say otherwise."""
    return Pen(
        sampling=sampling,
        chance=chance or SampledChance.seeded(0),
        vocab_size=VOCAB_SIZE,
        **{"gamma": 3} | options,
    )


def write(pen: Pen) -> None:
    """Writes token 0."""
    pen.write(0)


def written(pen: Pen, count: int) -> Pen:
    """Returns a pen that has written token 0 so often."""
    for _ in range(count):
        write(pen)
    return pen


def assert_refuses(what: str, pen: Pen, act: Callable[[Pen], object]) -> None:
    """Raises AssertionError if a pen lets a drafter do what no drafter may; `what` names it."""
    assert_refused(f"a pen that {what}", lambda: act(pen), DrafterError)


@final
class _Only(Constraint):
    """Allows one token."""

    def __init__(self, token: int) -> None:
        self._token = token

    def logits(self, ids: Any, logits: Tensor) -> Tensor:
        others = torch.arange(len(logits)) != self._token
        return logits.masked_fill(others, float("-inf"))
