"""The calibration of a confidence head: its fit, its measures, and the command."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import expit

from outrider.drafters.dflash.drafter import DFlash
from outrider.drafters.dflash.network import DFlashNetwork
from outrider.drafters.parts.networks.vocabulary import Vocabulary
from outrider.extras.training.calibration import (
    FIELDS,
    calibrated,
    calibration_error,
    cross_entropy,
    fitted,
)
from outrider.targets.transformers import TransformersTarget


def tokens_made_by(count: int, *pairs: tuple[float, float]) -> Any:
    """Returns `count` tokens at each place, accepted as often as its pair makes of the logit."""
    random = np.random.default_rng(0)
    places = np.repeat(np.arange(len(pairs)), count)
    logits = random.normal(size=len(places))
    chances = expit(logits * np.array(pairs)[places, 0] + np.array(pairs)[places, 1])
    halves = np.arange(len(places)) % 2
    accepted = random.random(len(places)) < chances
    return np.rec.fromarrays([halves, places, logits, accepted], dtype=FIELDS)


def test_the_pairs_that_made_the_tokens_are_found() -> None:
    made = [(2.0, -2.0), (0.5, 1.5)]
    tokens = tokens_made_by(4000, *made)
    pairs = fitted(tokens, 2)
    assert pairs == pytest.approx(np.array(made), abs=0.2)
    before, after = expit(tokens.logit), calibrated(pairs, tokens)
    assert after == pytest.approx(
        expit(pairs[tokens.place, 0] * tokens.logit + pairs[tokens.place, 1])
    )
    assert calibration_error(before, tokens.accepted, 10) > 0.04
    assert calibration_error(after, tokens.accepted, 10) < 0.02
    assert cross_entropy(after, tokens.accepted) < cross_entropy(before, tokens.accepted) - 0.03


def test_a_place_without_tokens_stays_as_it_is() -> None:
    assert fitted(tokens_made_by(40, (1.0, 0.0)), 3)[1:].tolist() == [[1.0, 0.0]] * 2


@pytest.mark.parametrize("accepted", [True, False])
def test_a_place_where_all_is_accepted_or_rejected_has_a_finite_fit(accepted: bool) -> None:
    tokens = np.rec.fromrecords([(0, 0, 0.3, accepted)] * 9, dtype=FIELDS)
    ((factor, added),) = fitted(tokens, 1)
    assert bool(factor * 0.3 + added > 0.3) is accepted and abs(added) < 5


def test_the_error_is_the_gap_in_groups_of_equal_size() -> None:
    foreseen = np.array([0.9, 0.1, 0.2, 0.8])
    accepted = np.array([True, False, True, True])
    assert calibration_error(foreseen, accepted, 2) == pytest.approx((0.35 + 0.15) / 2)
    assert calibration_error(foreseen, accepted, 99) == pytest.approx((0.1 + 0.1 + 0.8 + 0.2) / 4)
    logs = np.log([0.9, 0.9, 0.2, 0.8])
    assert cross_entropy(foreseen, accepted) == pytest.approx(-logs.mean())


def test_the_command_calibrates_a_head_for_dflash(
    run: Any, folder: Path, data: Path, tmp_path: Path
) -> None:
    model = ["target=transformers", f"target.model={folder}"]
    target = TransformersTarget(str(folder))
    options = {"block": 4, "confident": "embedding"}
    network = DFlashNetwork.untrained(target, Vocabulary(target.vocab_size), **options)
    network.save_checkpoint(tmp_path / "trained", target)
    whole = ["drafter=dflash", f"drafter.path={tmp_path / 'trained'}", "drafter.confidence=0"]
    prompts = ["data=jsonl", f"data.path={data}", "sampling=standard", "max_new_tokens=12"]
    out = tmp_path / "calibrated"
    train = ["train", "recipe=calibration", *model, *prompts]
    printed = run.done(*train, *whole, f"out={out}")
    assert "calibration error: " in printed and "cross entropy: " in printed
    facts = json.loads((out / "calibration.json").read_text())
    assert facts["tokens"] > 0
    DFlash(str(out), confidence=0.2).bind(target)
    config = DFlashNetwork.read_checkpoint(out, target).config
    assert len(config.calibration) == 3 and config.calibration[0] != (1.0, 0.0)
    for settings, line in (
        (["drafter=bigram"], "drafter.confidence=None: expected 0, and a dflash"),
        ([*whole, "data.limit=1"], "data=1: expected two prompts, to judge one half"),
    ):
        assert line in run.refused(*train, *settings, f"out={tmp_path / 'no'}")
