"""Optional dependencies: what works without them, and what is said where one is missing."""

import re
import tomllib
from importlib.metadata import requires
from pathlib import Path

import pytest
from tiny import forked

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
    assert len(PROJECT["dependencies"]) <= 13


def test_the_group_of_all_names_each_other_group() -> None:
    own = {"all", "dev", "docs"}
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


SCRIPT = """
import sys

optional, folder = set(sys.argv[1].split()), sys.argv[2]
for name in [*sys.modules]:
    if name.partition(".")[0] in optional:
        sys.modules[name] = None
    elif name.startswith("outrider.extras.") and ".cpu" not in name:
        del sys.modules[name]
sys.modules.update(dict.fromkeys(optional))

from outrider.cli import main as cli

compared = [
    "target=transformers", f"target.model={folder}", "data.limit=1", "max_new_tokens=2",
    "drafters=[none,bigram]", "cache=false",
]
for words in (
    ["generate", "target=tabular", "prompt=[0,1]", "drafter=bigram", "max_new_tokens=4"],
    ["check", "drafter=prompt_lookup"],
    ["theory"],
    ["compare", *compared],
    ["demo", *compared],
    ["new-plugin", "mine"],
    ["report", "outputs"],
    ["theory", "paper=figure2"],
    ["view", folder],
    ["train"],
    ["bench"],
    ["fuzz", "runs=1"],
    ["generate", "target=tabular", "prompt=[0,1]", "hydra/launcher=outrider_ray", "--multirun"],
    ["compare", *compared, "data=parquet", f"data.path={__file__}"],
):
    sys.argv = ["outrider", *words]
    status = 0
    try:
        cli.main()
    except SystemExit as stop:
        status = stop.code
    print(f"\\f{words[0]} {status}")
"""
"""Runs commands without the optional dependencies, and prints how each ended."""
LACKING = {
    "theory": "view", "view": "view", "train": "training", "bench": "bench", "fuzz": "fuzzing",
    "generate": "ray", "compare": "view",
}  # fmt: skip
"""The commands that need a group, in their order."""


def test_commands_without_optional_dependencies(tmp_path: Path, folder: Path) -> None:
    script = tmp_path / "without.py"
    script.write_text(SCRIPT)
    optional = set.union(*(names(GROUPS[group]) for group in GROUPS if group not in ("dev", "all")))
    words = " ".join(sorted(optional - set(COME_ANYWAY)))
    (tmp_path / "work").mkdir()
    done = forked.run(script, words, folder, cwd=tmp_path / "work")
    assert done.returncode == 0, done.stderr
    ends = re.findall(r"\f(.+)", done.stdout)
    works = ["generate", "check", "theory", "compare", "demo", "new-plugin", "report"]
    assert ends[:7] == [f"{name} 0" for name in works], done.stderr
    assert ends[7:] == [f"{name} 1" for name in LACKING], done.stderr
    lines = re.findall(r"outrider: .*pip install 'outrider\[(\w+)\]'\n", done.stderr)
    assert lines == list(LACKING.values()), done.stderr
    assert "report=page needs matplotlib: pip install 'outrider[view]'" in done.stderr
