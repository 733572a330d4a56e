"""The classifier stops where its network expects a rejection, and reads only its own files."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from outrider import ConfigError, Draft
from outrider.policies.classifier import FEATURES, Classifier, features, foresee, load_weights
from outrider.testing import run_checks


def test_conformance(foresight: Path) -> None:
    outcomes = list(run_checks(partial(Classifier, str(foresight))))
    assert outcomes
    assert [outcome.fault for outcome in outcomes if outcome.fault] == []


def test_the_features_describe_a_token(sure: Any) -> None:
    newest = features(sure(0.5, 0.8), 1)
    assert newest is not None
    logs = torch.tensor([0.8, 0.8, 0.1, 0.1]).double().log()
    entropy = -(0.8 * logs[0] + 0.2 * logs[2])
    expected = torch.cat([logs, torch.stack([entropy, torch.tensor(2.0)])])
    torch.testing.assert_close(newest, expected, rtol=1e-6, atol=1e-6)
    assert features(Draft((0,), (-1,), (None,), (None,)), 0) is None


def test_a_small_vocabulary_and_a_token_without_mass_have_features_too() -> None:
    logits = torch.tensor([0.0, -torch.inf])
    newest = features(Draft((1,), (-1,), (None,), (logits,)), 0)
    assert newest.shape == (FEATURES,)
    assert newest.isfinite().all()


def test_in_a_tree_the_depth_is_that_of_the_branch(sure: Any) -> None:
    chain = sure(0.5, 0.8, 0.7)
    tree = Draft(chain.tokens, (-1, -1, 0), chain.probs, chain.logits)
    depths = [int(row[-1]) for node in range(3) if (row := features(tree, node)) is not None]
    assert depths == [1, 1, 2]


def test_the_classifier_stops_behind_a_token_that_will_be_rejected(
    foresight: Path, sure: Any
) -> None:
    policy = Classifier(str(foresight), threshold=0.5)
    assert policy.depth(7) == 7
    weights = load_weights(str(foresight))
    for p in (0.95, 0.6, 0.1, 0.01):
        draft = sure(0.9, p)
        newest = features(draft, 1)
        assert policy.more(draft) == (float(foresee(weights, newest)) >= 0.5)
    assert policy.more(sure(0.95))
    assert not policy.more(sure(0.01))
    assert policy.more(Draft((0,), (-1,), (None,), (None,)))  # it was written, not drawn


def test_another_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    save_file({"w1": torch.zeros(2)}, path)
    with pytest.raises(ConfigError, match=r"policy\.path="):
        Classifier(str(path))
