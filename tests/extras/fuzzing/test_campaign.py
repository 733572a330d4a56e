"""Many random examples, drawn from a seed."""

from typing import Any

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import HealthCheck, given, seed, settings

from outrider import ConfigError
from outrider.extras.fuzzing.campaign import run_campaign
from outrider.extras.fuzzing.example import Example
from outrider.extras.fuzzing.run import Outcome
from outrider.extras.fuzzing.strategies import Pool, examples
from outrider.extras.fuzzing.tally import Tally


def test_150_examples_on_tables_keep_every_promise() -> None:
    tally = Tally()
    run_campaign("tables", tally, seed=1, runs=150)
    assert tally.failure is None, f"{tally.failure[1]}\n{tally.failure[0].command()}"
    assert tally.runs == 150 and tally.texts > 150
    assert tally.kinds.keys() >= {"greedy", "sampled", "lossy", "coupled", "enumerated", "batch"}
    assert sum(tally.refused.values()) < 15


def test_the_same_seed_draws_the_same_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[str] = []

    def noted(example: Example) -> Outcome:
        drawn.append(example.command())
        return Outcome()

    monkeypatch.setattr("outrider.extras.fuzzing.campaign.run_example", noted)
    for number in (1, 1, 2):
        run_campaign("tables", Tally(), seed=number, runs=20)
    assert drawn[:20] == drawn[20:40] != drawn[40:]


@pytest.mark.parametrize("group", ["tables", "transformers"])
def test_hydra_reads_an_example_as_printed(group: str) -> None:
    @seed(0)
    @settings(
        max_examples=30, database=None, deadline=None, suppress_health_check=list(HealthCheck)
    )
    @given(examples(group, Pool()))
    def read(example: Example) -> None:
        printed = example.command().removeprefix("outrider fuzz '").removesuffix("'")
        value: Any = OverridesParser.create().parse_override(printed).value()
        assert Example.of(value).plain() == example.plain()

    read()


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ({"targt": {}}, r"example.targt: did you mean 'target'\?"),
        ({"target": {}}, "example.drafter=None: expected a value"),
        (3, "example=3: expected a mapping"),
    ],
)
def test_an_example_that_makes_no_sense(values: Any, line: str) -> None:
    with pytest.raises(ConfigError, match=line):
        Example.of(values)
