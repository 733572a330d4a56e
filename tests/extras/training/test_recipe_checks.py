"""The kit finds the faults of recipes."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pytest

from outrider.drafters.parts.texts.ngrams import NGramTable
from outrider.extras.training.classifier import ClassifierRecipe
from outrider.extras.training.drafters import TableRecipe
from outrider.extras.training.generated_texts import Text
from outrider.extras.training.recipe import Job, Recipe
from outrider.extras.training.recipe_checks import DATA_CHECKS
from outrider.extras.training.speculators_data import SpeculatorsData, write_rows
from outrider.testing import run_checks


def faults(make: Callable[[], Any]) -> list[str]:
    """Returns the names of the checks that fail."""
    return [outcome.check for outcome in run_checks(make) if outcome.fault]


class Lost(Recipe):
    """A recipe that names a file that it has not written."""

    def __call__(self, job: Job) -> Mapping[str, Any]:
        return {"drafter": "bigram", "counts": str(job.out / "gone.safetensors")}


class Silent(Recipe):
    """A recipe that does not say what it made."""

    def __call__(self, job: Job) -> Mapping[str, Any]:
        NGramTable.fit([[0, 1, 2]], 2, job.target.vocab_size)
        return {}


def test_faulty_recipes_are_caught() -> None:
    counts = {"texts": 4, "held_out": 1, "temperatures": [1.0], "file": None}
    assert not faults(partial(TableRecipe, order=2, **counts))
    assert not faults(partial(ClassifierRecipe, steps=5))
    for recipe in (Lost, Silent):
        assert faults(recipe) == ["a_part_is_made_that_loads"]


(READ,) = DATA_CHECKS


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
