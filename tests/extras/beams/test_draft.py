"""The drafter's beams are its likeliest, whatever the drafter is made of."""

from typing import Any

import pytest
import torch
from tiny.drafters import Watches, bound

from outrider import ConfigError, Context, Drafter, Pen
from outrider.drafters.lookahead_decoding import LookaheadDecoding
from outrider.drafters.medusa import Medusa
from outrider.drafters.none import NoDraft
from outrider.drafters.prompt_lookup import PromptLookup
from outrider.drafters.small_lm import SmallLM
from outrider.extras.beams.draft import BeamDrafter, fit, log_probs
from outrider.extras.beams.search import begin
from outrider.targets.tabular import TabularTarget
from outrider.targets.transformers import TransformersTarget


class Table(Drafter):
    def __init__(self, table: torch.Tensor) -> None:
        self.table = table

    def propose(self, context: Context, pen: Pen) -> None:
        while pen.open:
            pen.draw(self.table[context.tokens[-1]])


def test_a_layer_holds_the_likeliest_beams_and_none_that_ended() -> None:
    probs = torch.tensor([[0.6, 0.3, 0.1], [0.2, 0.3, 0.5], [0.9, 0.05, 0.05]])
    beams = BeamDrafter(Table(probs.log()), [0], 3, frozenset({2}), 3)
    assert beams.run_ahead(begin(2), 2) == [[(0,), (1,)], [(0, 0), (0, 1), (1, 1)]]


def test_a_drafter_that_writes_has_one_beam_from_each() -> None:
    text = [5, 6, 7, 5, 6]
    steps = BeamDrafter(PromptLookup(), text, 4, frozenset(), 9).run_ahead(begin(2), 3)
    assert steps[0] == [(7,)]
    assert steps[1] == [(7, 5)]
    assert BeamDrafter(NoDraft(), text, 4, frozenset(), 9).run_ahead(begin(2), 3) == []


def test_a_small_models_distributions_are_those_of_each_text(llama: Any) -> None:
    model = llama().double()
    drafter = bound(SmallLM(model=model), TransformersTarget(llama()))
    batches = [
        [[3, 4, 5]], [[3, 4, 5, 6], [3, 4, 5, 7], [3, 4, 5, 8]],
        [[3, 4, 5, 6, 9], [3, 4, 5, 7, 9], [3, 4, 5, 2, 2]], [[3, 4, 5, 6, 9, 1]],
        [[3, 4, 8], [3, 4, 9]], [[8, 4], [9, 4], [9, 5]], [[8], [9]],
    ]  # fmt: skip
    for texts in batches:
        rows = log_probs(drafter, texts, 31)
        for text, row in zip(texts, rows, strict=True):
            with torch.no_grad():
                expected = model(torch.tensor([text])).logits[0, -1].log_softmax(-1)
            torch.testing.assert_close(row, expected.float(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("drafter", "line"),
    [
        (Medusa(), "drafter Medusa needs hidden_states: for beams there is the text, model$"),
        (LookaheadDecoding(), "drafter LookaheadDecoding writes trees"),
        (Watches(), "drafter Watches observes: for beams there are no logits to observe"),
    ],
)
def test_drafters_that_can_not_draft_beams_are_refused(
    llama: Any, drafter: Drafter, line: str
) -> None:
    with pytest.raises(ConfigError, match=f"^{line}"):
        fit(TransformersTarget(llama()), drafter)


def test_a_target_without_trees_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    target = TabularTarget(3)
    monkeypatch.setattr(target, "trees", False)
    with pytest.raises(ConfigError, match=r"^beams are scored as a tree"):
        fit(target, NoDraft())
