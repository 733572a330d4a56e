"""A step of beam search against the sum over all texts, and its settings against what they say."""

import itertools

import pytest
import torch

from outrider import ConfigError
from outrider.extras.beams.search import Rules, State, advance, begin
from outrider.targets.tabular import TabularTarget

TARGET = TabularTarget(3, order=2, seed=3)


def search(rules: Rules, eos: frozenset[int], longest: int) -> State:
    state = begin(rules.width)
    while not state.over:
        logits = torch.stack([TARGET.logits([0, *path]) for path in state.running])
        state = advance(state, logits, rules, eos, longest)
    return state


def likelihood(text: tuple[int, ...]) -> float:
    positions = range(len(text))
    probs = [TARGET.logits([0, *text[:position]]).log_softmax(-1) for position in positions]
    return sum(float(distribution[token]) for distribution, token in zip(probs, text, strict=True))


@pytest.mark.parametrize("penalty", [0.0, 1.0, -0.5, 3.0])
def test_beams_as_wide_as_everything_find_the_best_of_everything(penalty: float) -> None:
    eos = frozenset({2})
    texts = [
        text
        for length in (1, 2, 3)
        for text in itertools.product(range(3), repeat=length)
        if 2 not in text[:-1] and (length == 3 or text[-1] == 2)
    ]
    values = {text: likelihood(text) / len(text) ** penalty for text in texts}
    best = sorted(texts, key=lambda text: -values[text])
    state = search(Rules(9, penalty, "never"), eos, 3)
    assert list(state.finished) == best[:9]
    assert state.values.tolist() == pytest.approx([values[text] for text in best[:9]], abs=1e-6)


def test_early_stopping_ends_with_as_many_beams_as_are_asked_for() -> None:
    eos = frozenset({2})
    lengths = {
        stopping: len(search(Rules(2, 1.0, stopping), eos, 40).running[0])
        for stopping in (True, False, "never")
    }
    assert lengths[True] <= lengths[False] <= lengths["never"]
    assert lengths[True] < lengths["never"]


def test_a_text_has_no_more_than_its_length() -> None:
    state = search(Rules(3), frozenset(), 5)
    assert {len(path) for path in state.finished} == {5}
    assert bool(state.ended.all())


def test_settings_that_make_no_sense() -> None:
    with pytest.raises(ConfigError, match=r"^early_stopping='always': expected true or "):
        Rules(early_stopping="always")  # type: ignore[arg-type]
