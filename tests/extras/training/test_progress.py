"""A checkpoint continues on a machine without the device that wrote it."""

from pathlib import Path

import pytest
import torch
from torch import nn

from outrider.extras.training.progress import TrainingProgress
from outrider.extras.training.schedule import Schedule


def test_a_checkpoint_of_a_gpu_is_read_without_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = nn.Linear(2, 2)
    optimizer = torch.optim.AdamW(network.parameters())
    progress = TrainingProgress(network, optimizer, Schedule(), 4, tmp_path)
    progress.step, progress.losses = 3, [1.0]
    monkeypatch.setattr(torch.serialization, "location_tag", lambda _: "cuda:0")
    progress.record({"held_out": 1.0})
    monkeypatch.undo()
    again = nn.Linear(2, 2)
    optimizer = torch.optim.AdamW(again.parameters())
    assert TrainingProgress(again, optimizer, Schedule(), 4, tmp_path).step == 3
    assert torch.equal(again.weight, network.weight)
