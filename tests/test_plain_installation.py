"""`pip install .` alone, without any extra, decodes, compares and proves."""

import re
import shutil
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from tiny.packages import command, run, site_of, walk

pytestmark = pytest.mark.first
UNUSED = ("accelerate", "matplotlib", "pandas", "pyarrow", "starlette", "pytest")
"""What only extras bring, or the tests."""


@pytest.fixture(scope="session")
def plain_site(unpacked: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return site_of(unpacked, tmp_path_factory.mktemp("plain"))


def test_a_plain_installation_has_no_library_of_an_extra(plain_site: Path, tmp_path: Path) -> None:
    script = "from importlib.util import find_spec; import sys, outrider; print(outrider.__file__)"
    script += "; print(*[name for name in sys.argv[1:] if find_spec(name)])"
    python = sys.executable, "-S", "-c", script, *UNUSED
    where, there = run(*python, cwd=tmp_path, PYTHONPATH=str(plain_site)).splitlines()
    assert Path(where) == plain_site / "outrider" / "__init__.py"
    assert not there


@pytest.fixture
def walked(shallow_smollm2: Any, tmp_path: Path) -> Callable[..., list[tuple[str, str]]]:
    """Returns how commands ended with the packages of a folder alone, and what they printed."""
    few_layers = shallow_smollm2.model.name_or_path

    def walked(site: Path, commands: Iterable[list[str]]) -> list[tuple[str, str]]:
        steps = [command(*words) for words in commands]
        python = sys.executable, "-S"
        return walk(*python, steps=steps, few_layers=few_layers, cwd=tmp_path, PYTHONPATH=str(site))

    return walked


def compared(folder: Path) -> list[str]:
    """Returns the settings of a small comparison."""
    small = [f"target.model={folder}", "data.limit=1", "max_new_tokens=2", "cache=false"]
    return ["target=transformers", "drafters=[none,bigram]", *small]


TABULAR = ["generate", "target=tabular", "prompt=[0,1]"]
LACKING = {
    "view": ["view", "."],
    "training": ["train"],
    "launchers": [*TABULAR, "hydra/launcher=joblib", "-m"],
    "slurm": [*TABULAR, "hydra/launcher=outrider_slurm", "-m"],
}
"""Commands that need a library of an extra, by its name."""


def test_a_plain_installation_compares_and_names_the_group_of_a_missing_library(
    plain_site: Path, folder: Path, walked: Any
) -> None:
    commands = [["compare", *compared(folder)], ["theory"], ["doctor"]]
    ends = walked(plain_site, [*commands, *LACKING.values()])
    assert [status for status, _ in ends[:3]] == ["0"] * 3, ends
    assert ends[0][1].startswith(
        "reports=[page] needs matplotlib, pandas, pyarrow, starlette, uvicorn"
    )
    for (status, text), group in zip(ends[3:], LACKING, strict=True):
        line = rf"outrider: .* needs [\w, -]+: pip install 'outrider\[{group}\]'\n"
        assert status == "1" and re.fullmatch(line, text), text


def test_the_core_works_without_the_products(
    plain_site: Path, folder: Path, tmp_path: Path, walked: Any
) -> None:
    site = tmp_path / "site"
    shutil.copytree(plain_site / "outrider", site / "outrider")
    shutil.rmtree(site / "outrider" / "extras")
    for link in plain_site.iterdir():
        if link.name != "outrider":
            (site / link.name).symlink_to(link.resolve())
    commands = [
        ["generate", "target=tabular", "prompt=[0,1]", "drafter=bigram", "max_new_tokens=4"],
        ["check", "drafter=prompt_lookup"],
        ["compare", *compared(folder)],
        ["demo", "data.limit=1", "max_new_tokens=2"],
        ["report", "outputs"],
        ["new-plugin", "mine"],
        ["plugins"],
    ]
    *ends, (missing, line) = walked(site, [*commands, ["train"]])
    assert [status for status, _ in ends] == ["0"] * len(commands), ends
    assert missing == "1"
    assert line.startswith("outrider: command='train': there are: check, compare, demo")
