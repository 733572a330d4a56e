"""Facts about pens in turn: continued ones, guesses, questions, and the noise of positions."""

from collections.abc import Callable
from functools import partial
from typing import final

from torch import Tensor

from outrider.contract.chance import Chance
from outrider.contract.draft import ROOT
from outrider.contract.pen import Pen
from outrider.contract.sampling import Sampling
from outrider.testing.facts import assert_is
from outrider.testing.pens import LOGITS, assert_refuses, new_pen, write, written
from outrider.testing.stage import SAMPLED


def assert_continues() -> None:
    """Asserts that a pen that continues another has numbers of its own."""
    pen = new_pen(gamma=4, budget=6)
    pen.limit(2)
    second = written(pen, 2).continued()
    bounds = (second.gamma, second.budget, second.room, len(second), second.last, second.open)
    assert_is(
        "gamma, budget, room, length, last and open of a continued pen",
        bounds,
        (2, 4, 4, 0, -1, True),
    )
    second.write(2)
    second.write(3, after=ROOT)
    assert_is("the tokens of a continued pen", (second.token(0), second.token(1)), (2, 3))
    assert_refuses("continues an unknown node", second, partial(Pen.write, token=0, after=2))
    second.write(0)
    assert_refuses("continues past gamma", second, write)
    second.ask(0, node=1)
    assert_is("the draft of both", pen.finish().tokens, (0, 0, 2, 3, 0))
    assert_is("the parents of both", second.finish().parents, (-1, 0, 1, 1, 3))
    assert_is("the node asked about", pen.questions().parents, (-5,))


def assert_settles() -> None:
    """Asserts that no guess of a faster drafter can be passed over."""
    moves: tuple[tuple[str, Callable[[Pen], object]], ...] = (
        ("writes", write),
        ("ends", Pen.finish),
        ("limits the depth", partial(Pen.limit, depth=0)),
        ("guesses again", partial(Pen.faster, gamma=1)),
        ("continues", Pen.continued),
    )
    for what, act in moves:
        pen = new_pen()
        pen.faster(1).draw(LOGITS)
        assert_refuses(f"{what} where a guess is to be redrawn", pen, act)
    pen = new_pen()
    pen.faster(2).faster(1).draw(LOGITS)
    assert_refuses("writes where a guess of a guess is to be redrawn", pen, write)
    pen = written(new_pen(), 1)
    pen.continued().faster(1).draw(LOGITS)
    assert_refuses("ends where a continued pen has a guess", pen, Pen.finish)
    assert_refuses("redraws without a guess", new_pen(), partial(Pen.redraw, logits=LOGITS))


def assert_noise() -> None:
    """Asserts that under a coupled rule a token is drawn with the noise of its position."""
    for sampling, expected in ((SAMPLED, [11, 12, 11, 12]), (Sampling(), [])):
        races = _Races()
        pen = written(new_pen(chance=races, sampling=sampling, start=10), 1)
        guesses = pen.faster(2)
        guesses.draw(LOGITS)
        guesses.draw(LOGITS)
        pen.redraw(-LOGITS)
        pen.draw(LOGITS)
        assert_is("the positions whose noise was drawn", races.positions, expected)
        assert_is("the tokens drawn with that noise", pen.finish().tokens, (0, 3, 2))


def assert_asks() -> None:
    """Asserts that questions are a tree of their own, behind the draft."""
    pen = written(new_pen(), 1)
    numbers = [pen.ask(1), pen.ask(2), pen.ask(3, after=0), pen.ask(0, after=ROOT)]
    assert_is("the numbers of questions", numbers, [0, 1, 2, 3])
    pen.ask(1, node=0)
    questions = written(pen, 1).questions()
    assert_is("the questions", questions.tokens, (1, 2, 3, 0, 1))
    assert_is("the parents of the questions", questions.parents, (-1, 0, 0, -1, -2))
    both = pen.finish().joined(questions)
    assert_is("draft and questions as one tree", both.tokens, (0, 0, 1, 2, 3, 0, 1))
    assert_is("the parents in that tree", both.parents, (-1, 0, -1, 2, 2, -1, 0))


@final
class _Races(Chance):
    """Has nothing but the noise of positions, and lists those that it was asked for."""

    def __init__(self) -> None:
        self.positions: list[int] = []

    def coins(self, probs: Tensor) -> list[bool]:
        raise AssertionError("under a coupled rule, the pen tossed a coin")

    def categorical(self, probs: Tensor) -> int:
        raise AssertionError("under a coupled rule, the pen drew without a position's noise")

    def race(self, probs: Tensor, position: int) -> int:
        self.positions.append(position)
        return int(probs.argmax())
