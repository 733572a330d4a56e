"""The recipe learns what there is to learn, and only from tested tokens."""

from pathlib import Path
from typing import Any

import pytest
import torch

from outrider import ConfigError
from outrider.extras.training.classifier import Recorder, fit
from outrider.policies.classifier import FEATURES, foresee, load_weights


def sample(n: int, seed: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Returns the features of tokens, whether they are accepted, and with what probability."""
    generator = torch.Generator().manual_seed(seed)
    p = torch.rand(n, generator=generator, dtype=torch.float64)
    x = torch.randn(n, FEATURES, generator=generator, dtype=torch.float64)
    x[:, 0] = p.log()
    return x, torch.rand(n, generator=generator, dtype=torch.float64) < p, p


def test_the_classifier_finds_the_probability_of_acceptance() -> None:
    x, y, _ = sample(4000, 0)
    held_x, held_y, p = sample(2000, 1)
    weights, loss = fit(x, y, held_x, held_y)
    # The entropy of the coin itself can't be predicted: 1/2 nat for p uniform on [0, 1].
    assert loss == pytest.approx(0.5, abs=0.04)
    assert float((foresee(weights, held_x) - p).abs().mean()) < 0.06


def test_held_out_rows_decide_when_training_stops() -> None:
    x, y, _ = sample(30, 0)
    held_x, held_y, _ = sample(500, 1)
    losses = [fit(x, y, held_x, held_y, steps=steps)[1] for steps in (1, 50, 400, 800)]
    assert losses == sorted(losses, reverse=True)
    assert losses[2] == losses[3] < losses[0]  # it was best long before the end


@pytest.mark.parametrize("y", [[True, True], [False, False]])
def test_one_kind_of_tokens_teaches_nothing(y: list[bool]) -> None:
    x = torch.zeros(2, FEATURES)
    with pytest.raises(ConfigError, match="2 tokens were accepted, 2 held out: expected accepted"):
        fit(x, torch.tensor(y), x, torch.tensor(y))


def test_only_tested_tokens_are_samples(outcome: Any, sure: Any) -> None:
    recorder = Recorder()
    assert recorder.depth(4) == 4
    for length in (1, 2, 3, 4):
        assert recorder.more(sure(*(0.9,) * length))
    recorder.observe(outcome(4, 1))
    assert recorder.accepted == [True, False]
    assert [int(row[-1]) for row in recorder.features] == [1, 2]


def test_the_policy_uses_the_weights_that_the_command_trained(
    run: Any, folder: Path, data: Path, tmp_path: Path
) -> None:
    settings = ["target=transformers", f"target.model={folder}", "data=jsonl", f"data.path={data}"]
    more = ["drafter=random", "sampling=standard", "max_new_tokens=40", "gamma=3"]
    path = tmp_path / "made" / "foresight"
    printed = run.done("train", "recipe=classifier", *settings, *more, f"out={path}")
    assert "held-out tokens" in printed
    written = path.with_suffix(".safetensors")
    assert load_weights(str(written))["w1"].shape[0] == FEATURES
    use = ["policy=classifier", f"policy.path={written}", "prompt=the cat"]
    run.done("generate", *settings[:2], *more, *use)
