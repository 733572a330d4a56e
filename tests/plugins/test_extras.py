"""Optional dependencies: what works without them, and what is said where one is missing."""

import re
import tomllib
from importlib.metadata import requires
from pathlib import Path

import pytest

from outrider.plugins.registry import builtin

ROOT = Path(__file__).parent.parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
GROUPS = PROJECT["optional-dependencies"]
COME_ANYWAY = {"jinja2": "torch", "packaging": "transformers"}
"""Optional dependencies that a hard one brings."""


def names(requirements: list[str]) -> set[str]:
    """Returns the modules of requirements."""
    return {re.split(r"[>=<\[]", line)[0].replace("-", "_") for line in requirements}


def test_hard_dependencies_are_few() -> None:
    assert len(PROJECT["dependencies"]) <= 16


def test_the_group_of_all_names_each_other_group() -> None:
    own = {"all", "dev", "docs", "lab"}
    own |= {"hub", "harness"}  # these bring datasets, which is large
    own |= {"tensorboard", "wandb", "mlflow"}  # each a client of a service of its own
    assert GROUPS["all"] == [f"outrider[{','.join(name for name in GROUPS if name not in own)}]"]
    assert "outrider[all]" in GROUPS["dev"]


@pytest.mark.parametrize(("library", "owner"), COME_ANYWAY.items())
def test_a_hard_dependency_brings(library: str, owner: str) -> None:
    assert library in names([line for line in requires(owner) or () if "extra" not in line])


def test_parts_need_groups_that_exist() -> None:
    extras = {entry.extra for entry in builtin().entries if entry.extra is not None}
    assert extras and extras <= GROUPS.keys()
