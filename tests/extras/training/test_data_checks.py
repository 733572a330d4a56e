"""Data that are written are checked by reading them, and those without states are found."""

from collections.abc import Mapping
from typing import Any

import pytest

from outrider.extras.training.data_checks import CHECKS
from outrider.extras.training.generated_texts import Text
from outrider.extras.training.recipe import Job, Recipe
from outrider.extras.training.speculators_data import SpeculatorsData, write_rows

(READ,) = CHECKS


class NoStates(Recipe):
    """Writes rows only, or tells nobody where they are."""

    def __init__(self, made: str | None) -> None:
        self._made = made

    def __call__(self, job: Job) -> Mapping[str, Any]:
        job.out.mkdir()
        write_rows(job.out, [Text([1, 2, 3], 1, 1)])
        return {} if self._made is None else {self._made: str(job.out)}


def test_the_data_of_the_recipe_are_read_again() -> None:
    READ(lambda: SpeculatorsData(texts=2, held_out=1, temperatures=[1.0], layers=None))


@pytest.mark.parametrize(("made", "line"), [("recipe.rows", "hs_0"), (None, "as recipe.rows")])
def test_data_that_lack_something_are_found(made: str | None, line: str) -> None:
    with pytest.raises(AssertionError, match=line):
        READ(lambda: NoStates(made))
