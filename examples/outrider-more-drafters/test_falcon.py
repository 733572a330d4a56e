"""Falcon: blocks that equal a pass over everything, round trip, and the glances of its loss."""

from pathlib import Path
from typing import Any

import pytest
import torch
from outrider import ConfigError
from outrider.drafters.parts.networks.layer import KeysAndValues
from outrider.drafters.parts.networks.vocabulary import Vocabulary
from outrider.testing.tiny_targets import context_after, draft_after, tiny_target

from outrider_more_drafters.falcon import Falcon
from outrider_more_drafters.falcon_network import FalconNetwork
from outrider_more_drafters.falcon_objective import _random_runs

TEXT = [3, 7, 7, 2, 9, 4, 11, 5, 6]
TARGET = tiny_target(31)


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


@pytest.fixture(params=[1, 2, 3])
def network(request: pytest.FixtureRequest, tmp_path: Path) -> FalconNetwork:
    """A network with blocks of some size, in a folder of weights."""
    options = {"block": request.param}
    made = FalconNetwork.untrained(TARGET, Vocabulary(31), seed=2, **options)
    made.save_checkpoint(tmp_path, TARGET)
    return FalconNetwork.read_checkpoint(tmp_path, TARGET)


@pytest.mark.parametrize(("length", "gamma"), [(6, 9), (9, 3), (9, 1), (4, 4), (7, 5)])
def test_drafts_have_the_distributions_of_passes_over_the_whole_text(
    network: FalconNetwork, tmp_path: Path, length: int, gamma: int
) -> None:
    drafter, text = Falcon(path=str(tmp_path)), TEXT[:length]
    drafter.bind(TARGET)
    draft = draft_after(drafter, TARGET, text, gamma, seed=length)
    assert len(draft) == gamma
    features = context_after(drafter, TARGET, text).features["hidden_states"]
    right = whole(network, features, text, [*draft.tokens])
    for probs, exact in zip(draft.probs, right, strict=True):
        torch.testing.assert_close(probs, exact.double(), rtol=1e-4, atol=1e-5)


def test_a_block_of_another_kind_is_refused(network: FalconNetwork, tmp_path: Path) -> None:
    network.block = None
    network.save_checkpoint(tmp_path / "again", TARGET)
    with pytest.raises(ConfigError, match="block=None: expected a whole number"):
        FalconNetwork.read_checkpoint(tmp_path / "again", TARGET)


def test_no_draft_is_made_before_the_first_block() -> None:
    drafter = Falcon(path="untrained", block=4)
    drafter.bind(TARGET)
    assert len(draft_after(drafter, TARGET, TEXT[:4], 3)) == 0


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
