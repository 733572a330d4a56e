"""A run that is interrupted ends with the same curve and weights as one that is not."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny.learners import make_learner

from outrider import ConfigError
from outrider.drafters.parts.networks.vocabulary import Vocabulary
from outrider.extras.training.generated_texts import Text
from outrider.extras.training.loop import train_network
from outrider.extras.training.progress import Schedule
from outrider.extras.training.states import compute_states
from outrider.targets.transformers import TransformersTarget

SCHEDULE = Schedule(epochs=4, batch=6, rate=0.02, warmup=2, evaluate=3, patience=9)


@pytest.fixture
def go(target: Any, examples: Any) -> Any:
    def start(folder: Path, schedule: Schedule = SCHEDULE, evaluate: Any = dict) -> Any:
        learned = make_learner("medusa", target, Vocabulary(31), 0, {"heads": 2, "share": 0.7})
        curve = train_network(
            learned, examples, examples, schedule, folder=folder, evaluate=evaluate
        )
        return curve, learned.network.state_dict()

    return start


@pytest.mark.parametrize("change", [{}, {"whitened": True}, {"precision": "bf16"}])
def test_training_learns(change: dict[str, Any], go: Any, tmp_path: Path) -> None:
    curve, weights = go(tmp_path, replace(SCHEDULE, **change))
    assert [point["step"] for point in curve] == [3, 6, 9, 12, 15, 16]
    assert curve[-1]["held_out"] < 0.9 * curve[0]["held_out"]
    lines = (tmp_path / "curve.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == curve
    assert all(tensor.dtype == torch.float32 for tensor in weights.values())
    assert (curve == go(tmp_path / "plain")[0]) == (not change)


@pytest.mark.parametrize("whitened", [False, True])
@pytest.mark.parametrize("at", [1, 4])
def test_a_killed_run_continues(at: int, whitened: bool, go: Any, tmp_path: Path) -> None:
    schedule = replace(SCHEDULE, whitened=whitened)
    whole, right = go(tmp_path / "whole", schedule)
    calls = []

    def killed() -> dict[str, float]:
        calls.append(1)
        if len(calls) == at:
            raise KeyboardInterrupt
        return {}

    with pytest.raises(KeyboardInterrupt):
        go(tmp_path / "cut", schedule, killed)
    curve, weights = go(tmp_path / "cut", schedule)
    assert curve == whole
    assert all(torch.equal(weights[name], right[name]) for name in right)


def test_training_stops_early_and_keeps_the_best(go: Any, tmp_path: Path) -> None:
    wild = Schedule(epochs=30, batch=6, rate=3.0, warmup=1, clip=1e9, evaluate=1, patience=2)
    curve, _ = go(tmp_path, wild)
    assert len(curve) < 30 * 4
    best = min(range(len(curve)), key=lambda point: curve[point]["held_out"])
    assert best == len(curve) - 3


@pytest.mark.parametrize("family", ["medusa", "eagle3"])
def test_texts_that_are_too_short_to_learn_from_end_the_run(
    family: str, target: Any, tmp_path: Path
) -> None:
    """A batch without anything to learn is passed over, but a run on nothing is no success."""
    learner = make_learner(family, target, Vocabulary(31), 0, {})
    texts = [Text([2, 3], 1, 1)] * 4
    short = compute_states(target, texts, learner.reads, tmp_path / "states")
    with pytest.raises(ConfigError, match=r"recipe\.texts=4: expected some that it learns from"):
        train_network(learner, short, short, SCHEDULE, folder=tmp_path)


def test_a_loss_that_is_not_a_number_ends_the_run(
    target: Any, examples: Any, tmp_path: Path
) -> None:
    learned = make_learner("medusa", target, Vocabulary(31), 0, {"heads": 1})
    broken = replace(learned, loss=lambda batch: learned.loss(batch) * float("nan"))
    with pytest.raises(ConfigError, match="the loss is not a number after 1 steps"):
        train_network(broken, examples, examples, SCHEDULE, folder=tmp_path)


@pytest.mark.parametrize("family", ["medusa", "eagle3", "dflash", "small_lm"])
def test_small_steps_count_for_a_target_in_bfloat16(
    *, family: str, deep_llama: Any, words: Any, texts: Any, tmp_path: Path
) -> None:
    target = TransformersTarget(deep_llama().bfloat16(), words)
    options = {"layers": 2} if family == "small_lm" else {}
    learned = make_learner(family, target, Vocabulary(31), 0, options)
    examples = compute_states(target, texts, learned.reads, tmp_path / "states")
    start = {name: tensor.float() for name, tensor in learned.network.named_parameters()}
    tiny = Schedule(epochs=1, batch=24, rate=1e-5, warmup=1, evaluate=1)  # rounding: about 1e-4
    train_network(learned, examples, examples, tiny, folder=tmp_path)
    changed = [
        (tensor != start[name])[tensor.grad != 0]
        for name, tensor in learned.network.named_parameters()
        if tensor.grad is not None
    ]
    assert torch.cat(changed).float().mean() > 0.9
