"""The table and the profile of a served drafter's counts."""

from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from tiny.profile_rules import checked

from outrider.extras.serving.serve_report import Comparison, acceptance_of, table, write_profile
from outrider.extras.serving.vllm_server import Drafted


def test_a_table_of_80_columns_cuts_no_name_and_no_number() -> None:
    console = Console(width=80, record=True)
    counts = Drafted(1236, 11788, 1112, ())
    names = ["prompt_lookup", "suffix of 24 tokens of 8 texts"]
    console.print(table(dict.fromkeys(names, Comparison(counts, counts, [], [], None)), 40, ""))
    text = console.export_text()
    assert "…" not in text
    for word in ("prompt_lookup ", *names[1].split(), " 11788 ", "40 of 40 ", "ties"):
        assert word in text


COUNTS = Drafted(drafts=10, drafted=30, accepted=12, by_position=(7, 4, 1))


def test_counters_by_position_are_rates_and_lengths() -> None:
    found = acceptance_of(COUNTS, gamma=4)
    assert found.acceptance_length_histogram == {1: 3, 2: 3, 3: 3, 4: 1}
    assert found.mean_acceptance_length.value == pytest.approx(1 + 12 / 10)
    assert found.marginal_accept_rates == (0.7, 0.4, 0.1, 0)
    assert found.conditional_accept_rates == pytest.approx((7 / 10, 4 / 7, 1 / 4, 0))
    assert found.mean_acceptance_length_per_request is None
    assert acceptance_of(Drafted(10, 30, 12), gamma=4) is None


EAGLE = {"_target_": "outrider.drafters.eagle3.Eagle3", "path": "/models/org/drafter"}
BLOCK = {"_target_": "outrider.drafters.dflash.DFlash", "path": "untrained"}


@pytest.mark.parametrize(
    ("drafter", "method", "lengths"), [(EAGLE, "eagle3", [1, 2, 3]), (BLOCK, "dflash", [3])]
)
def test_the_profile_follows_the_rules(
    drafter: Any, method: str, lengths: list[int], tmp_path: Path
) -> None:
    settings = {"gamma": 3, "target": {"model": "/models/org/large"}, "drafter": drafter}
    write_profile("mine", COUNTS, settings, {"engine": "vllm 0.32.0"}, folder=tmp_path)
    content = checked(tmp_path / "profiles" / "mine" / "speculation_profile.json")
    assert content["mean_accept_length"] == pytest.approx(2.2)
    assert list(map(int, content["accept_length_by_k"])) == lengths
    assert (content["method"], content["target_model"]) == (method, {"name": "org/large"})
    write_profile("none", Drafted(), settings, {}, folder=tmp_path)
    assert not (tmp_path / "profiles" / "none").exists()
