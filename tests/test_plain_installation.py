"""`pip install .` alone, without any extra, decodes, compares and proves."""

import json
import re
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
from tiny.packages import run, site_of

pytestmark = pytest.mark.first
UNUSED = ("accelerate", "matplotlib", "pandas", "pyarrow", "starlette", "pytest")
"""What only extras bring, or the tests."""


@pytest.fixture(scope="session")
def plain_site(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return site_of(wheel, tmp_path_factory.mktemp("plain"))


def ran(site: Path, cwd: Path, *words: object) -> str:
    """Returns what an interpreter printed that has the packages of a folder alone."""
    return run(sys.executable, "-S", *words, cwd=cwd, PYTHONPATH=str(site), COLUMNS="200")


def test_a_plain_installation_has_no_library_of_an_extra(plain_site: Path, tmp_path: Path) -> None:
    script = "from importlib.util import find_spec; import sys, outrider; print(outrider.__file__)"
    script += "; print(*[name for name in sys.argv[1:] if find_spec(name)])"
    where, there = ran(plain_site, tmp_path, "-c", script, *UNUSED).splitlines()
    assert Path(where) == plain_site / "outrider" / "__init__.py"
    assert not there


SCRIPT = """
import json
import sys
from outrider.cli import main as cli

sys.stderr = sys.stdout
for words in json.loads(sys.argv[1]):
    sys.argv = ["outrider", *words]
    status = 0
    try:
        cli.main()
    except SystemExit as stop:
        status = stop.code
    print(f"\\f{words[0]} {status}\\f")
"""
"""Runs commands in one process; form feeds are around the name of each and how it ended."""


def printed(site: Path, cwd: Path, commands: Iterable[list[str]]) -> list[tuple[str, str]]:
    """Returns how each command ended, as "NAME STATUS", and what it printed."""
    parts = ran(site, cwd, "-c", SCRIPT, json.dumps(list(commands))).split("\f")
    return list(zip(parts[1:-1:2], parts[0:-1:2], strict=True))


def compared(folder: Path) -> list[str]:
    """Returns the settings of a small comparison."""
    small = [f"target.model={folder}", "data.limit=1", "max_new_tokens=2", "cache=false"]
    return ["target=transformers", "drafters=[none,bigram]", *small]


def test_a_plain_installation_compares(plain_site: Path, folder: Path, tmp_path: Path) -> None:
    commands = [["compare", *compared(folder)], ["theory"], ["doctor"]]
    ends = printed(plain_site, tmp_path, commands)
    assert [end for end, _ in ends] == ["compare 0", "theory 0", "doctor 0"], ends
    assert ends[0][1].startswith(
        "report=page needs matplotlib, pandas, pyarrow, starlette, uvicorn"
    )


def test_the_core_works_without_the_products(
    plain_site: Path, folder: Path, tmp_path: Path
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
    *ends, (missing, line) = printed(site, tmp_path, [*commands, ["train"]])
    assert [end for end, _ in ends] == [f"{words[0]} 0" for words in commands], ends
    assert missing == "train 1"
    assert line.strip().startswith("outrider: command='train': there are: check, compare, demo")


def test_a_missing_library_is_one_line_that_names_the_group(
    plain_site: Path, folder: Path, tmp_path: Path
) -> None:
    tabular = ["generate", "target=tabular", "prompt=[0,1]"]
    lacking = {
        "view": ["theory", "paper=figure2"],
        "training": ["train"],
        "launchers": [*tabular, "hydra/launcher=joblib", "-m"],
        "slurm": [*tabular, "hydra/launcher=outrider_slurm", "-m"],
    }
    ends = printed(plain_site, tmp_path, lacking.values())
    for (end, text), group in zip(ends, lacking, strict=True):
        assert end.endswith(" 1")
        line = rf"outrider: .* needs [\w, -]+: pip install 'outrider\[{group}\]'"
        assert re.fullmatch(line, text.strip()), text
