"""Facts about the pen: what it records, what it refuses, and whose noise it draws with."""

from collections.abc import Callable
from typing import Any, final

import torch
from torch import Tensor

from outrider.contract.chance import Chance, SampledChance
from outrider.contract.constraint import Constraint, Guide
from outrider.contract.draft import ROOT, Draft
from outrider.contract.pen import Pen
from outrider.contract.sampling import Sampling
from outrider.errors import DrafterError
from outrider.testing.facts import assert_close, assert_is, assert_refused
from outrider.testing.stage import SAMPLED, VOCAB_SIZE

LOGITS = torch.tensor([0.3, 1.0, 2.0, -1.0], dtype=torch.float64)


def assert_records() -> None:
    """Asserts that the distributions recorded are those of the run's sampling, and stay so."""
    for buffer, tolerance in ((LOGITS.clone(), 1e-12), (LOGITS.float(), 1e-6)):
        pen = _pen(sampling=Sampling(temperature=2.0, top_k=3))
        pen.draw(buffer)
        buffer.fill_(0.0)  # a drafter may use it again
        draft = pen.finish()
        (probs,), (logits,) = draft.probs, draft.logits
        assert probs is not None and logits is not None, "a draw without a distribution or logits"
        assert_is("logits after a drafter wrote over them", logits.tolist()[:1], [buffer.new_tensor(0.3)])
        weights = (LOGITS / 2).exp() * torch.tensor([1, 1, 1, 0])
        for token, p in enumerate((weights / weights.sum()).tolist()):
            what = f"the probability recorded for token {token}, of logits {buffer.dtype}"
            assert_close(what, float(probs[token]), p, tolerance)
        assert_close("the sum of a recorded distribution", float(probs.sum()), 1.0, 1e-15)


def assert_greedy() -> None:
    """Asserts that draws at temperature 0 are written point masses."""
    pen = _pen(sampling=Sampling(), budget=9)
    assert_is("the greedy draw", pen.draw(LOGITS), int(LOGITS.argmax()))
    assert_is("greedy siblings without replacement", len(pen.branch(LOGITS, 3)), 1)
    assert_is("greedy siblings with it", len(pen.branch(LOGITS, 2, replacement=True)), 2)
    assert_is("the distributions of greedy draws", pen.finish().probs, (None,) * 4)


def assert_guided() -> None:
    """Asserts that a draw keeps to the constraint, unless that leaves nothing."""
    pen = _pen(guide=Guide(_Only(1), [0]))
    pen.draw(LOGITS)
    without = LOGITS.index_fill(0, torch.tensor([1]), float("-inf"))
    pen.draw(without)
    first, second = pen.finish().probs
    assert first is not None and second is not None, "a draw without a distribution"
    assert_is("a distribution under a constraint", first.tolist(), [0.0, 1.0, 0.0, 0.0])
    expected = without.softmax(-1).tolist()
    assert_is("one that a constraint leaves nothing of", second.tolist(), expected)


def assert_bounds() -> None:
    """Asserts that what no draft may hold is refused."""
    infinity, nan = float("inf"), float("nan")
    for logits in (
        *(torch.zeros(5), torch.zeros(3), torch.zeros(1, VOCAB_SIZE)),
        *(torch.tensor([0.0, value, 0.0, 0.0]) for value in (infinity, nan)),
        torch.full((VOCAB_SIZE,), -infinity),
    ):
        for sampling in (SAMPLED, Sampling()):
            pen = _pen(sampling=sampling)
            _refuses(f"draws from logits {logits.tolist()}", pen, lambda pen, x=logits: pen.draw(x))
    for token in (-1, VOCAB_SIZE):
        _refuses(f"writes token {token}", _pen(), lambda pen, x=token: pen.write(x))
        _refuses(f"asks token {token}", _pen(), lambda pen, x=token: pen.ask(x))
    _refuses("writes after an unknown node", _pen(), lambda pen: pen.write(0, after=0))
    _refuses("asks after an unknown question", _pen(), lambda pen: pen.ask(0, after=0))
    _refuses("asks after an unknown node", _pen(), lambda pen: pen.ask(0, node=0))
    _refuses("writes past gamma", _written(_pen(gamma=2, budget=9), 2), lambda pen: pen.write(0))
    _refuses("writes past the budget", _written(_pen(budget=1), 1), lambda pen: pen.write(0))
    _refuses("branches past the budget", _pen(budget=1), lambda pen: pen.branch(LOGITS, 2))
    limited = _pen(gamma=3)
    limited.limit(1)
    limited.limit(2)
    _refuses("writes past a limit", _written(limited, 1), lambda pen: pen.write(0))


def assert_stops() -> None:
    """Asserts that the policy sees what was submitted, and ends the draft."""
    seen: list[tuple[int, ...]] = []

    def more(draft: Draft) -> bool:
        seen.append(draft.tokens)
        return len(draft) < 2

    pen = _pen(more=more)
    while pen.open:
        pen.write(len(pen))
    assert_is("what the policy was shown", seen, [(0,), (0, 1)])
    _refuses("writes after the policy stopped", pen, lambda pen: pen.write(0))
    assert_is("a draft that the policy stopped", pen.finish().tokens, (0, 1))


def assert_continues() -> None:
    """Asserts that a pen that continues another has numbers of its own."""
    pen = _pen(gamma=4, budget=6)
    pen.limit(2)
    second = _written(pen, 2).continued()
    bounds = (second.gamma, second.budget, second.room, len(second), second.last, second.open)
    assert_is("gamma, budget, room, length, last and open", bounds, (2, 4, 4, 0, -1, True))
    second.write(2)
    second.write(3, after=ROOT)
    assert_is("the tokens of a continued pen", (second.token(0), second.token(1)), (2, 3))
    _refuses("continues an unknown node", second, lambda pen: pen.write(0, after=2))
    second.write(0)
    _refuses("continues past gamma", second, lambda pen: pen.write(0))
    second.ask(0, node=1)
    assert_is("the draft of both", pen.finish().tokens, (0, 0, 2, 3, 0))
    assert_is("the parents of both", second.finish().parents, (-1, 0, 1, 1, 3))
    assert_is("the node asked about", pen.questions().parents, (-5,))


def assert_settles() -> None:
    """Asserts that no guess of a faster drafter can be passed over."""
    for what, act in (
        ("writes", lambda pen: pen.write(0)),
        ("ends", lambda pen: pen.finish()),
        ("limits the depth", lambda pen: pen.limit(0)),
        ("guesses again", lambda pen: pen.faster(1)),
        ("continues", lambda pen: pen.continued()),
    ):
        pen = _pen()
        pen.faster(1).draw(LOGITS)
        _refuses(f"{what} where a guess is to be redrawn", pen, act)
    pen = _pen()
    pen.faster(2).faster(1).draw(LOGITS)
    _refuses("writes where a guess of a guess is to be redrawn", pen, lambda pen: pen.write(0))
    pen = _written(_pen(), 1)
    pen.continued().faster(1).draw(LOGITS)
    _refuses("ends where a continued pen has a guess", pen, lambda pen: pen.finish())
    _refuses("redraws without a guess", _pen(), lambda pen: pen.redraw(LOGITS))


def assert_noise() -> None:
    """Asserts that under a coupled rule a token is drawn with the noise of its position."""
    for sampling, expected in ((SAMPLED, [11, 12, 11, 12]), (Sampling(), [])):
        races = _Races()
        pen = _written(_pen(chance=races, sampling=sampling, start=10), 1)
        guesses = pen.faster(2)
        guesses.draw(LOGITS)
        guesses.draw(LOGITS)
        pen.redraw(-LOGITS)
        pen.draw(LOGITS)
        assert_is("the positions whose noise was drawn", races.positions, expected)
        assert_is("the tokens drawn with it", pen.finish().tokens, (0, 3, 2))


def assert_asks() -> None:
    """Asserts that questions are a tree of their own, behind the draft."""
    pen = _written(_pen(), 1)
    numbers = [pen.ask(1), pen.ask(2), pen.ask(3, after=0), pen.ask(0, after=ROOT)]
    assert_is("the numbers of questions", numbers, [0, 1, 2, 3])
    pen.ask(1, node=0)
    questions = _written(pen, 1).questions()
    assert_is("the questions", questions.tokens, (1, 2, 3, 0, 1))
    assert_is("the parents of the questions", questions.parents, (-1, 0, 0, -1, -2))
    both = pen.finish().joined(questions)
    assert_is("draft and questions as one tree", both.tokens, (0, 0, 1, 2, 3, 0, 1))
    assert_is("the parents in that tree", both.parents, (-1, 0, -1, 2, 2, -1, 0))


def _pen(chance: Chance | None = None, sampling: Sampling = SAMPLED, **options: Any) -> Pen:
    return Pen(
        sampling=sampling,
        chance=chance or SampledChance.seeded(0),
        vocab_size=VOCAB_SIZE,
        **{"gamma": 3} | options,
    )


def _written(pen: Pen, count: int) -> Pen:
    """Returns a pen that has written token 0 so often."""
    for _ in range(count):
        pen.write(0)
    return pen


def _refuses(what: str, pen: Pen, act: Callable[[Pen], object]) -> None:
    assert_refused(f"a pen that {what}", lambda: act(pen), DrafterError)


@final
class _Only(Constraint):
    """Allows one token."""

    def __init__(self, token: int) -> None:
        self._token = token

    def logits(self, ids: Any, logits: Tensor) -> Tensor:
        others = torch.arange(len(logits)) != self._token
        return logits.masked_fill(others, float("-inf"))


@final
class _Races(Chance):
    """Has nothing but the noise of positions, and lists those that it was asked for."""

    def __init__(self) -> None:
        self.positions: list[int] = []

    def coins(self, probs: Tensor) -> list[bool]:
        raise AssertionError("under a coupled rule, the pen tossed a coin")

    def categorical(self, probs: Tensor) -> int:
        raise AssertionError("under a coupled rule, the pen drew apart from the noise of a position")

    def race(self, probs: Tensor, position: int) -> int:
        self.positions.append(position)
        return int(probs.argmax())
