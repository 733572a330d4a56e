"""A profile from a server's counters follows the rules of the format."""

import json
from pathlib import Path

import pytest

from outrider.extras.serving.profiles import acceptance_of, write_profile
from outrider.extras.serving.server import Drafted
from outrider.extras.theory.speculation_profile import read_profile

COUNTS = Drafted(drafts=10, drafted=30, accepted=12, by_position=(7, 4, 1))


def test_counters_by_position_are_rates_and_lengths() -> None:
    found = acceptance_of(COUNTS, gamma=4)
    assert found.histogram == {1: 3, 2: 3, 3: 3, 4: 1}
    assert found.mean.value == pytest.approx(1 + 12 / 10)
    assert found.marginal == (0.7, 0.4, 0.1, 0)
    assert found.conditional == pytest.approx((7 / 10, 4 / 7, 1 / 4, 0))
    assert found.plain()["mean_acceptance_length_per_request"] is None
    assert acceptance_of(Drafted(10, 30, 12), gamma=4) is None


def test_the_profile_is_one_that_is_read(tmp_path: Path) -> None:
    settings = {"gamma": 3, "target": {"model": "/models/org/large"}}
    path = write_profile("eagle3", COUNTS, settings, {"engine": "vllm 0.32.0"}, folder=tmp_path)
    assert path == tmp_path / "profiles" / "eagle3" / "speculation_profile.json"
    assert read_profile(path).mean_accept_length == pytest.approx(2.2)
    assert json.loads(path.read_text())["target_model"] == {"name": "org/large"}
    assert write_profile("none", Drafted(), settings, {}, folder=tmp_path) is None
