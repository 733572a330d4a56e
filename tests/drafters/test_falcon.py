"""Falcon: conformance, blocks that equal a pass over everything, round trip, training."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tiny.checkpoints import change
from tiny.drafters import bound

from outrider import ConfigError, Sampling
from outrider.drafters.falcon.drafter import Falcon
from outrider.drafters.falcon.network import FalconNetwork
from outrider.drafters.parts.networks.layer import KeysAndValues
from outrider.drafters.parts.networks.vocabulary import Vocabulary
from outrider.extras.training.falcon_objective import _random_runs
from outrider.targets.passes.cached_model import HIDDEN
from outrider.targets.transformers import TransformersTarget
from outrider.testing.tiny_targets import context_after, draft_after, write_draft

TEXT = [3, 7, 7, 2, 9, 4, 11, 5, 6]


@pytest.fixture
def target(llama: Any) -> Any:
    return TransformersTarget(llama(num_attention_heads=4, num_key_value_heads=2))


@torch.no_grad()
def whole(network: Any, features: Any, written: list[int]) -> Any:
    """Returns the distribution of each drafted token, from passes over the whole text."""
    block, probs = network.block, []
    states, tokens = features[None], torch.tensor([[*TEXT[1:], *written]])
    known = len(TEXT) - 1
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


@pytest.mark.parametrize("block", [1, 2, 3])
def test_blocks_are_those_of_a_pass_over_everything(block: int, target: Any) -> None:
    drafter = bound(Falcon(path="untrained", block=block), target)
    for length in (len(TEXT) - 2, len(TEXT)):  # the second time only what is new is read
        context = context_after(drafter, target, TEXT[:length])
        draft = write_draft(drafter, target, context, gamma=5, sampling=Sampling(temperature=1.0))
    assert len(draft) == 5
    network = FalconNetwork.load("untrained", target, block=block)
    for probs, right in zip(
        draft.probs, whole(network, context.features[HIDDEN], list(draft.tokens)), strict=True
    ):
        torch.testing.assert_close(probs.float(), right, rtol=1e-4, atol=1e-6)


def test_no_draft_is_made_before_the_first_block(target: Any) -> None:
    drafter = bound(Falcon(path="untrained", block=4), target)
    assert len(draft_after(drafter, target, TEXT[:4], 3, sampling=Sampling())) == 0


def test_a_round_trip(target: Any, tmp_path: Path) -> None:
    vocabulary = Vocabulary(31, torch.tensor([1, 4, 9, 30]))
    network = FalconNetwork.untrained(target, vocabulary, seed=4, block=3)
    network.save_checkpoint(tmp_path, target)
    back = FalconNetwork.load(str(tmp_path), target, block=1)
    assert back.block == 3 and back.vocabulary.ids is not None
    assert torch.equal(back.vocabulary.ids, torch.tensor([1, 4, 9, 30]))
    for name, tensor in network.state_dict().items():
        assert torch.equal(back.state_dict()[name], tensor.half().float())


def test_a_tensor_that_does_not_fit_is_named(target: Any, tmp_path: Path) -> None:
    FalconNetwork.untrained(target, Vocabulary(31)).save_checkpoint(tmp_path, target)
    change(tmp_path, {}, {"lstm.bias_hh_l1": None})
    with pytest.raises(ConfigError, match=r"tensor lstm\.bias_hh_l1 is missing"):
        Falcon(str(tmp_path)).bind(target)
    change(tmp_path, {"block": None})
    with pytest.raises(ConfigError, match="block=None: expected a whole number"):
        Falcon(str(tmp_path)).bind(target)


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
