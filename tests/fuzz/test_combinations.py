"""Many random examples, each of which keeps every promise; `make fuzz` draws more of them."""

import os
from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fuzz.parts import Example
from fuzz.run import run_example
from fuzz.strategies import OF_ONE_KIND, drafters_for, enumerations, models, runs, tables
from outrider.plugins.registry import installed

RUNS = os.environ.get("OUTRIDER_FUZZ")
"""How many examples to draw of each kind, other ones each time; without it a few, always the same.
"""


@pytest.mark.first
@pytest.mark.parametrize(
    ("strategy", "count", "kinds"),
    [
        (runs(tables()), 120, {"greedy", "sampled", "lossy", "coupled", "batch"}),
        (enumerations(), 40, {"enumerated"}),
        (runs(models()), 10, {"greedy", "sampled", "batch"}),
    ],
    ids=["tables", "enumerations", "models"],
)
def test_random_examples_keep_every_promise(
    strategy: st.SearchStrategy[Example], count: int, kinds: set[str]
) -> None:
    most = int(RUNS or count)
    checked, refused = Counter[str](), list[str]()

    @settings(
        max_examples=most,
        derandomize=RUNS is None,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(example=strategy)
    def run(example: Example) -> None:
        outcome = run_example(example)
        checked.update(outcome.kinds)
        if outcome.refused is not None:
            refused.append(outcome.refused)

    run()
    assert checked.keys() >= kinds
    assert len(refused) < most / 3, "\n".join(refused)


def test_every_registered_drafter_is_drawn() -> None:
    kinds = [(True, False), (True, True), (False, False)]
    drawn = {
        name for table, encoder in kinds for name in drafters_for(table=table, encoder=encoder)
    }
    assert drawn >= installed().of("drafter").keys() - {*OF_ONE_KIND}
