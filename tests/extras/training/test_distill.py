"""A student starts as the target's first layers, and gets nearer to the target."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tiny.learners import make_learner

from outrider.drafters.parts.networks.student import read_student
from outrider.drafters.parts.networks.vocabulary import Vocabulary
from outrider.extras.training.loop import train_network
from outrider.extras.training.losses import DIVERGENCES
from outrider.extras.training.progress import Schedule
from outrider.targets.passes.first_layers import first_layers

SCHEDULE = Schedule(epochs=6, batch=8, rate=0.01, warmup=2, evaluate=6, patience=9)


def test_the_student_starts_as_the_first_layers(target: Any) -> None:
    learned = make_learner("small_lm", target, Vocabulary(31), 0, {"layers": 2})
    ids = torch.tensor([[3, 4, 5]])
    right = first_layers(target.model, 2)(ids).logits
    assert torch.equal(learned.network(ids).logits, right)
    assert len(learned.network.model.layers) == 2
    assert len(target.model.model.layers) == 5
    own = {tensor.data_ptr() for tensor in learned.network.parameters()}
    assert not own & {tensor.data_ptr() for tensor in target.model.parameters()}


@pytest.mark.parametrize("divergence", [*DIVERGENCES][:2])
@pytest.mark.parametrize("on_policy", [False, True])
def test_the_student_gets_nearer_to_the_target(
    *, divergence: str, on_policy: bool, target: Any, examples: Any, tmp_path: Path
) -> None:
    options = {"layers": 2, "divergence": divergence, "on_policy": on_policy}
    learned = make_learner("small_lm", target, Vocabulary(31), 0, options)
    before = [tensor.clone() for tensor in target.model.parameters()]
    curve = train_network(learned, examples, examples, SCHEDULE, folder=tmp_path)
    assert curve[-1]["held_out"] < curve[0]["held_out"]
    assert all(map(torch.equal, before, target.model.parameters()))


def test_a_student_learns_to_write_some_tokens_alone(
    target: Any, examples: Any, tmp_path: Path
) -> None:
    vocabulary = Vocabulary(31, torch.arange(3, 28))
    learned = make_learner("small_lm", target, vocabulary, 0, {"layers": 2})
    curve = train_network(learned, examples, examples, SCHEDULE, folder=tmp_path)
    assert curve[-1]["held_out"] < curve[0]["held_out"]
    learned.save_checkpoint(tmp_path / "out")
    ids = torch.tensor([[3, 4, 5]])
    logits = read_student(tmp_path / "out", target)(ids).logits
    assert logits[..., :3].eq(float("-inf")).all() and logits[..., 28:].eq(float("-inf")).all()
    torch.testing.assert_close(logits, learned.network(ids).logits, rtol=0.02, atol=0.02)


def test_a_share_of_the_positions(target: Any, examples: Any) -> None:
    def loss(share: float, training: bool) -> list[float]:
        learned = make_learner("small_lm", target, Vocabulary(31), 0, {"layers": 2, "share": share})
        learned.network.train(training)
        batch = next(iter(examples.batches(8, 0))).to(torch.device("cpu"), torch.float32)
        return [float(learned.loss(batch).detach()) for _ in range(60)]

    whole = loss(1.0, True)[0]
    sampled = torch.tensor(loss(0.5, True))
    assert loss(0.5, False)[0] == pytest.approx(whole)  # all are evaluated
    assert len(sampled.unique()) > 1
    assert abs(sampled.mean() - whole) < 4 * sampled.std() / 60**0.5
