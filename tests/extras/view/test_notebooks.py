"""The notebooks run from the first cell to the last on a tiny target."""

import runpy
from pathlib import Path
from typing import Any

import pytest

from outrider.lab.runs.run import Run
from outrider.targets.transformers import TransformersTarget

DOCS = Path(__file__).parents[3] / "docs"
FIGURES = {"compare": 2, "write_a_drafter": 1, "read_a_run": 3}
"""By notebook, how many figures it draws."""


@pytest.fixture
def settings(target: TransformersTarget, whole_run: Run) -> dict[str, dict[str, Any]]:
    """By notebook, what replaces its settings."""
    return {
        "compare": {
            "TARGET": target,
            "DRAFTERS": ["none", "bigram", "prompt_lookup"],
            "PROMPTS": ["red blue red blue red", "one two three one two"],
            "GAMMAS": [1, 3],
            "MAX_NEW_TOKENS": 8,
        },
        "write_a_drafter": {"TARGET": target, "PROMPT": "red blue red", "MAX_NEW_TOKENS": 8},
        "read_a_run": {"RUNS": whole_run.folder},
    }


def kinds(notebook: dict[str, Any]) -> list[list[list[str]]]:
    """Returns for each cell with code what kinds of outputs it has."""
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    return [[sorted(output.get("data", ["text"])) for output in cell["outputs"]] for cell in cells]


@pytest.mark.parametrize("name", FIGURES)
def test_a_notebook_runs_and_draws_its_figures(
    name: str, settings: dict[str, dict[str, Any]]
) -> None:
    path = DOCS / "notebooks" / f"{name}.ipynb"
    run = runpy.run_path(str(DOCS / "scripts" / "notebooks.py"))["run"]
    made = kinds(run(path, settings[name]))
    assert sum(output == ["image/png"] for cell in made for output in cell) == FIGURES[name]
    with pytest.raises(KeyError):
        run(path, {"NO_SUCH_SETTING": 1})


def test_every_notebook_is_known() -> None:
    assert {path.stem for path in (DOCS / "notebooks").glob("*.ipynb")} == set(FIGURES)
