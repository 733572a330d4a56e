"""Pens that continue, guess or stand apart record what each token was drawn from, too."""

from collections.abc import Callable
from functools import partial

import pytest
import torch
from tiny.pens import LOGITS, SAMPLED, new_pen

from outrider import Chance, Draft, DrafterError, Pen, Sampling
from outrider.contract.chance import Noise
from outrider.contract.composition import ask, continued, faster, redraw, written


def test_probes_are_a_tree_of_their_own() -> None:
    pen = new_pen(sampling=Sampling(), vocab_size=6, gamma=2)
    pen.write(3)
    assert [ask(pen, 1), ask(pen, 2), ask(pen, 4, after=0), ask(pen, 5, after=-1)] == [0, 1, 2, 3]
    pen.write(0)
    probes = pen.sheet.probes()
    assert (probes.tokens, probes.parents) == ((1, 2, 4, 5), (-1, 0, 0, -1))
    draft = pen.sheet.finish()
    assert draft.tokens == (3, 0)
    both = draft.joined(probes)
    assert both.tokens == (3, 0, 1, 2, 4, 5)
    assert both.parents == (-1, 0, -1, 2, 2, -1)
    assert draft.joined(Draft()) == Draft(draft.tokens, draft.parents, draft.probs)
    with pytest.raises(DrafterError, match="asked after probe 4: there are 4"):
        ask(pen, 0, after=4)
    with pytest.raises(DrafterError, match="wrote id 6: the vocabulary has 6 tokens"):
        ask(pen, 6)


def test_a_pen_that_continues_another_has_its_own_numbers() -> None:
    pen = new_pen(sampling=Sampling(), vocab_size=9, gamma=4, budget=6)
    assert continued(pen).gamma == 4  # of an empty draft
    pen.limit(2)
    pen.write(1)
    pen.write(2)
    assert not pen.open
    second = continued(pen)
    assert (second.gamma, second.budget, second.room, len(second), second.last) == (2, 4, 4, 0, -1)
    assert second.open
    second.write(3)
    second.write(4, after=-1)
    assert (second.token(0), second.token(1), second.last) == (3, 4, 1)
    with pytest.raises(DrafterError, match="has no node 2: the last one is 1"):
        second.write(5, after=2)
    second.write(5)
    with pytest.raises(DrafterError, match="wrote to depth 3: gamma is 2"):
        second.write(6)
    ask(second, 7, node=1)
    ask(second, 8, after=-1)
    with pytest.raises(DrafterError, match="has no node 3: the last one is 2"):
        ask(second, 7, node=3)
    assert pen.sheet.finish().tokens == (1, 2, 3, 4, 5)
    assert second.sheet.finish().parents == (-1, 0, 1, 1, 3)
    assert pen.sheet.probes().parents == (-5, -3)


@pytest.mark.parametrize(
    "move",
    [
        partial(Pen.write, token=0),
        written,
        partial(Pen.limit, depth=0),
        partial(faster, gamma=1),
        continued,
    ],
)
def test_no_guess_is_passed_over(move: Callable[[Pen], object]) -> None:
    for guesses in (1, 2):  # a guess, and a guess of a guess
        ink = new_pen()
        fast = faster(ink, 2)
        (fast if guesses == 1 else faster(fast, 1)).draw(LOGITS)
        with pytest.raises(DrafterError, match="passed over the guess of token"):
            move(ink)


def test_a_guess_that_a_continuing_pen_passes_over_is_found_at_the_end() -> None:
    first = new_pen()
    first.write(1)
    faster(continued(first), 1).draw(LOGITS)
    with pytest.raises(DrafterError, match="passed over the guess of token 2: use redraw"):
        first.sheet.finish()
    with pytest.raises(DrafterError):
        redraw(new_pen(), LOGITS)


class Races(Chance):
    """Has nothing but the noise of positions, and lists those that were asked for."""

    def __init__(self) -> None:
        self.positions: list[int] = []

    def coins(self, probs: torch.Tensor) -> list[bool]:
        raise AssertionError("a coin was tossed")

    def categorical(self, probs: torch.Tensor) -> int:
        raise AssertionError("a token was drawn apart from the noise of its position")

    def race(self, probs: torch.Tensor, position: int) -> int:
        self.positions.append(position)
        return int(probs.argmax())


@pytest.mark.parametrize(("sampling", "positions"), [(SAMPLED, [11, 12, 11, 12]), (Sampling(), [])])
def test_under_a_coupled_rule_guesses_and_tokens_share_the_noise_of_their_positions(
    sampling: Sampling, positions: list[int]
) -> None:
    races = Races()
    ink = new_pen(races, sampling, noise=Noise(range(10)))
    ink.write(1)
    guesses = faster(ink, 2)
    guesses.draw(LOGITS)
    guesses.draw(LOGITS)
    assert redraw(ink, -LOGITS) == 3
    ink.draw(LOGITS)
    assert races.positions == positions
    assert ink.sheet.finish().tokens == (1, 3, 2)
