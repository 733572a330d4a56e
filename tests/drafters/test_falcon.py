"""Falcon: conformance, blocks that equal a pass over everything, round trip, training."""

from types import MappingProxyType
from typing import Any, ClassVar

import pytest
import torch
from tiny.drafters import bound
from tiny.published import TEXT, PublishedNetwork, Refused, hidden, sizes_of

from outrider.drafters.falcon.drafter import Falcon
from outrider.drafters.falcon.network import FalconNetwork
from outrider.drafters.parts.networks.layer import KeysAndValues
from outrider.drafters.parts.networks.vocabulary import Vocabulary
from outrider.extras.training.falcon_objective import _random_runs
from outrider.targets.transformers import TransformersTarget
from outrider.testing.tiny_targets import draft_after


@torch.no_grad()
def whole(network: Any, features: Any, text: list[int], written: list[int]) -> Any:
    """Returns the distribution of each drafted token, from passes over the whole text."""
    block, probs = network.block, []
    states, tokens = features[None], torch.tensor([[*text[1:], *written]])
    known = len(text) - 1
    while len(probs) < len(written):
        count = states.shape[1]
        x, _ = network.fuse(states, tokens[:, :count], None)
        positions = torch.arange(count)
        # Blocks end where the text does, and where each draft of a block does.
        number = torch.div(positions - known, block, rounding_mode="floor")
        reach = (number[None] <= number[:, None])[None, None]
        out = network(x, positions[None], reach, KeysAndValues())[:, -block:]
        probs += list(network.logits(out)[0].softmax(-1))
        states = torch.cat([states, out], dim=1)
    return probs[: len(written)]


class TestPublished(PublishedNetwork):
    """Blocks of one, two and three tokens, against passes over the whole text."""

    drafter, network, variants = Falcon, FalconNetwork, (1, 2, 3)
    sizes = MappingProxyType({"num_attention_heads": 4, "num_key_value_heads": 2})
    refused: ClassVar[Refused] = {
        r"tensor lstm\.bias_hh_l1 is missing": ({}, {"lstm.bias_hh_l1": None}),
        "block=None: expected a whole number": ({"block": None}, {}),
    }

    def layout(self, model: Any, variant: Any) -> Any:
        network = FalconNetwork(TransformersTarget(model), Vocabulary(31), block=variant)
        return sizes_of(model) | {"block": variant}, network.state_dict()

    def reference(self, model: Any, w: Any, text: Any, drafted: Any, variant: Any) -> Any:
        network = FalconNetwork(TransformersTarget(model), Vocabulary(31), block=variant)
        network.load_state_dict(w)
        return whole(network, hidden(model, text)[0], text, drafted)

    def test_no_draft_is_made_before_the_first_block(self, llama: Any) -> None:
        target = self.target(llama)
        drafter = bound(Falcon(path="untrained", block=4), target)
        assert len(draft_after(drafter, target, TEXT[:4], 3)) == 0


@pytest.mark.parametrize(("wrong", "shown"), [(0, 0), (1, 1), (5, 2), (10, 4)])
def test_glances_are_a_run_as_long_as_the_number_of_errors(wrong: int, shown: int) -> None:
    mistakes = torch.zeros(50, 12, dtype=torch.bool)
    mistakes[:, :wrong] = True
    runs = _random_runs(mistakes, 0.4)
    assert runs.sum(1).tolist() == [shown] * 50
    steps = runs.int().diff(dim=1, prepend=torch.zeros(50, 1).int()).clamp(min=0)
    assert steps.sum(1).max() <= 1  # in a row
    if shown:
        assert len(set(runs.int().argmax(1).tolist())) > 3  # anywhere
