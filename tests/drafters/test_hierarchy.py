"""A drafter that a faster one speeds up keeps its distribution, and takes fewer passes."""

from functools import partial
from typing import Any

import pytest
import torch
from tiny.drafters import bound
from tiny.parts import held
from tiny.pens import new_pen

from outrider import ConfigError, Context, Drafter, Pen, Sampling, Tokens
from outrider.contract.chance import Chance
from outrider.drafters.hierarchy import Hierarchy
from outrider.drafters.none import NoDraft
from outrider.drafters.small_lm import SmallLM
from outrider.targets.transformers import TransformersTarget
from outrider.testing.exact import distribution_of
from outrider.testing.tiny_targets import VOCAB_SIZE, draft_after, tiny_target

SAMPLED = Sampling(temperature=1.0)


@pytest.mark.parametrize("faster", ["random", "bigram", "prompt_lookup", "none"])
@pytest.mark.parametrize("ahead", [1, 3])
def test_the_draft_has_the_distribution_of_the_small_model_whoever_guesses(
    faster: str, ahead: int
) -> None:
    """Exactly: every branch of the guesses and of their tests, added up."""
    target = tiny_target(VOCAB_SIZE)
    drafter = bound(Hierarchy(faster, ahead, layers=2), target)
    alone = bound(SmallLM(layers=2), target)

    def play(drafter: Drafter, chance: Chance) -> tuple[int, ...]:
        pen = new_pen(chance, vocab_size=VOCAB_SIZE, gamma=2)
        drafter.propose(Context(Tokens([0, 1, 0])), pen)
        draft = pen.sheet.finish()
        assert all(distribution is not None for distribution in draft.probs)
        return draft.tokens

    probs = [distribution_of(partial(play, part)) for part in (drafter, alone)]
    assert probs[0] == pytest.approx(probs[1], abs=1e-9)


class Oracle(Drafter):
    """Guesses what the small model will say."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def propose(self, context: Context, pen: Pen) -> None:
        text = context.tokens[:]
        while pen.open:
            with torch.no_grad():
                text.append(pen.draw(self.model(torch.tensor([text])).logits[0, -1]))


def test_good_guesses_save_passes(llama: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    target, model = TransformersTarget(llama()), llama(seed=3)
    passes = []
    for guesser in (NoDraft(), Oracle(model)):
        drafter = bound(Hierarchy(guesser, 3, model=model), target)
        count = []
        small = held(drafter, SmallLM)
        inner = small.scores

        def scores(*rest: Any, inner: Any = inner, count: list[int] = count) -> Any:
            count.append(1)
            return inner(*rest)

        monkeypatch.setattr(small, "scores", scores)
        draft_after(drafter, target, [3, 4, 5], 8)
        passes.append(len(count))
    assert passes == [8, 2]


def test_a_faster_drafter_that_needs_states_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"drafter\.faster=.* without the target's states"):
        Hierarchy(faster={"drafter": "eagle", "path": "untrained"})


def test_no_more_is_guessed_than_fits_into_the_draft() -> None:
    asked: list[int] = []

    class Counting(Drafter):
        def propose(self, context: Context, pen: Pen) -> None:
            asked.append(pen.gamma)
            while pen.open:
                pen.write(0)

    target = tiny_target(VOCAB_SIZE)
    drafter = bound(Hierarchy(Counting(), ahead=3, layers=1), target)
    draft_after(drafter, target, [0, 1], 2)
    assert asked[0] == 1  # the small model writes the token after the guesses
