"""Side by side over the same prompts; what is finished is on disk whatever happens."""

import json
from pathlib import Path
from typing import Any

import pytest

from outrider import ConfigError, Context, Drafter, DrafterError, Pen, Sampling
from outrider.drafters.none import NoDraft
from outrider.drafters.random import Random
from outrider.lab.compare import Measurement, Question, Settings, compare, measure, summarise
from outrider.targets.tabular import TabularTarget
from outrider.testing.stage import ChainDrafter
from outrider.verifiers.lenient import Lenient
from outrider.verifiers.token import Token

TARGET = TabularTarget(6)
QUESTIONS = [Question(str(i), "x", [i, 1]) for i in range(3)]
SETTINGS = Settings(gamma=3, sampling=Sampling(temperature=1.0), max_new_tokens=20)


def test_a_row_a_drafter_and_a_line_a_measurement(tmp_path: Path) -> None:
    drafters = {"none": NoDraft(), "random": Random(), "itself": ChainDrafter(TARGET, "exact")}
    seen: list[Measurement] = []
    rows = compare(
        TARGET,
        drafters,
        Token(),
        QUESTIONS,
        SETTINGS,
        tmp_path,
        facts={"gamma": 3},
        on_measurement=seen.append,
    )
    report = json.loads((tmp_path / "comparison.json").read_text())
    assert [row["drafter"] for row in report["rows"]] == ["none", "random", "itself"]
    assert set(report["rows"][0]) >= {
        "drafter",
        "alpha",
        "alpha_tested",
        "acceptance_rate",
        "block_efficiency",
        "tokens_per_second",
        "speedup",
        "counts",
    }
    assert report["finished"] and report["lossless"]
    assert report["settings"] == {"gamma": 3}
    assert report["prompts"] == ["0", "1", "2"]
    lines = (tmp_path / "measurements.jsonl").read_text().splitlines()
    assert len(lines) == len(seen) == 9
    none, random, itself = rows
    assert (none.alpha, none.alpha_tested, none.block_efficiency, none.speedup) == (0, None, 1, 1)
    assert itself.alpha == pytest.approx(1)
    assert itself.alpha_tested == 1
    assert itself.block_efficiency == 4
    assert random.alpha is not None and 0 < random.alpha < 1
    assert random.counts["emitted"] == 60


def test_a_lossy_rule_is_reported_as_such(tmp_path: Path) -> None:
    rows = compare(TARGET, {"r": Random()}, Lenient(0.3), QUESTIONS, SETTINGS, tmp_path)
    assert not rows[0].lossless
    assert json.loads((tmp_path / "comparison.json").read_text())["lossless"] is False


class Breaks(Drafter):
    """Fails, or is interrupted, on the third prompt."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def propose(self, context: Context, pen: Pen) -> None:
        if context.tokens[0] == 2:
            raise self.error


@pytest.mark.parametrize(
    ("error", "raised"), [(ValueError("x"), DrafterError), (KeyboardInterrupt(), KeyboardInterrupt)]
)
def test_a_run_that_breaks_off_keeps_the_finished_prompts(
    tmp_path: Path, error: BaseException, raised: Any
) -> None:
    drafters = {"random": Random(), "breaks": Breaks(error)}
    with pytest.raises(raised):
        compare(TARGET, drafters, Token(), QUESTIONS, SETTINGS, tmp_path)
    report = json.loads((tmp_path / "comparison.json").read_text())
    assert report["finished"] is False
    assert report["prompts"] == ["0", "1"]
    assert [row["counts"]["emitted"] for row in report["rows"]] == [40, 40]
    assert len((tmp_path / "measurements.jsonl").read_text().splitlines()) == 5


def test_nothing_to_compare_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"drafters=\[\]: expected at least one"):
        list(measure(TARGET, {}, Token(), QUESTIONS, SETTINGS))
    with pytest.raises(ConfigError, match=r"data=\[\]: expected at least one prompt"):
        list(measure(TARGET, {"none": NoDraft()}, Token(), [], SETTINGS))


def test_a_drafter_without_a_finished_prompt_has_no_row() -> None:
    assert summarise([], ["none"], True) == []
