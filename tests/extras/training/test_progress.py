"""A checkpoint is whole, and continues on a machine without the device that wrote it."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from outrider import ConfigError
from outrider.extras.training.progress import CHECKPOINT, Schedule, TrainingProgress


@pytest.fixture
def progress(tmp_path: Path) -> Any:
    """Makes the progress of a network in the test's folder."""

    def make(network: nn.Module | None = None) -> TrainingProgress:
        network = network or nn.Linear(2, 2)
        optimizer = torch.optim.Adam(network.parameters())
        return TrainingProgress(network, optimizer, Schedule(), 4, tmp_path)

    return make


def test_a_checkpoint_of_a_gpu_is_read_without_one(
    progress: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    network, again = nn.Linear(2, 2), nn.Linear(2, 2)
    first = progress(network)
    first.step, first.losses = 3, [1.0]
    monkeypatch.setattr(torch.serialization, "location_tag", lambda _: "cuda:0")
    first.record({"held_out": 1.0})
    monkeypatch.undo()
    assert progress(again).step == 3
    assert torch.equal(again.weight, network.weight)


@pytest.mark.parametrize("damage", ["cut", "other"])
def test_a_damaged_checkpoint_is_one_line(progress: Any, tmp_path: Path, damage: str) -> None:
    first = progress()
    first.losses = [1.0]
    first.record({"held_out": 1.0})
    path = tmp_path / CHECKPOINT
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:-200])
    else:
        torch.save({"facts": {}}, path)
    with pytest.raises(ConfigError, match=r"checkpoint\.pt: (damaged|expected a ch)") as caught:
        progress()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("measured", [True, False])
def test_the_weights_that_draft_best_are_kept(progress: Any, measured: bool) -> None:
    network = nn.Linear(1, 1, bias=False)
    run = progress(network)
    for step, (loss, tokens) in enumerate(((2.0, 1.5), (1.0, 1.6), (1.2, 1.9), (1.1, 1.7))):
        run.step, run.losses = step, [loss]
        network.weight.data.fill_(step)
        run.record({"held_out": loss} | ({"block_efficiency": tokens} if measured else {}))
    assert run.stale == (1 if measured else 2)
    run.restore_best()
    assert network.weight.item() == (2 if measured else 1)
