"""`pip install .` alone, without any extra, decodes, compares and proves."""

import re
import sys
import zipfile
from importlib.metadata import PackageNotFoundError, distribution, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from tiny.packages import run

pytestmark = pytest.mark.first
UNUSED = ("accelerate", "matplotlib", "pandas", "pyarrow", "starlette", "ray", "pytest")
"""What only extras bring, or the tests."""


def hard_dependencies() -> set[str]:
    """Returns the distributions that Outrider needs, and those that they need."""
    seen, left = set[tuple[str, str]](), [("outrider", "")]
    while left:
        name, extra = left.pop()
        seen.add((name, extra))
        for needed in map(Requirement, requires(name) or ()):
            wanted = needed.marker is None or needed.marker.evaluate({"extra": extra})
            items = {(needed.name, each) for each in ("", *needed.extras)}
            left += (items - seen) if wanted and is_installed(needed.name) else ()
    return {name for name, _ in seen} - {"outrider"}


def is_installed(name: str) -> bool:
    try:
        distribution(name)
    except PackageNotFoundError:  # of another system
        return False
    return True


@pytest.fixture(scope="session")
def plain_site(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of packages with the wheel, and links to what it needs."""
    site = tmp_path_factory.mktemp("plain") / "site"
    zipfile.ZipFile(wheel).extractall(site)
    for name in hard_dependencies():
        files = distribution(name).files
        assert files, name
        for top in {file.parts[0] for file in files} - {"..", "__pycache__"}:
            link = site / top
            if not link.exists():
                link.symlink_to(distribution(name).locate_file(top).resolve())  # type: ignore[attr-defined]
    return site


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
import sys
from outrider.cli import main as cli

folder = sys.argv[1]
sys.stderr = sys.stdout
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
    ["doctor"],
    ["plugins"],
    ["theory", "paper=figure2"],
    ["view", folder],
    ["train"],
    ["generate", "target=tabular", "prompt=[0,1]", "hydra/launcher=outrider_ray", "--multirun"],
    ["compare", *compared, "data=parquet", f"data.path={folder}/config.json"],
):
    sys.argv = ["outrider", *words]
    status = 0
    try:
        cli.main()
    except SystemExit as stop:
        status = stop.code
    print(f"\\f{words[0]} {status}\\f")
"""
"""Runs commands in one process; form feeds are around the name of each and how it ended."""

WORKING = (
    *("generate", "check", "theory", "compare", "demo", "new-plugin", "report"),
    *("doctor", "plugins"),
)
LACKING = {
    "theory": "view", "view": "view", "train": "training",
    "generate": "ray", "compare": "view",
}  # fmt: skip
"""The commands that need a group, in their order."""


@pytest.fixture(scope="module")
def printed(plain_site: Path, folder: Path, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What each command printed, and behind it how it ended."""
    return ran(plain_site, tmp_path_factory.mktemp("work"), "-c", SCRIPT, folder).split("\f")


def test_a_plain_installation_decodes_compares_and_proves(printed: list[str]) -> None:
    assert printed[1:-1:2][: len(WORKING)] == [f"{name} 0" for name in WORKING], printed
    assert "report=page needs matplotlib: pip install 'outrider[view]'" in printed[6]


def test_a_missing_library_is_one_line_that_names_the_group(printed: list[str]) -> None:
    ends, said = printed[1:-1:2][len(WORKING) :], printed[0:-1:2][len(WORKING) :]
    assert ends == [f"{name} 1" for name in LACKING], printed
    for text, group in zip(said, LACKING.values(), strict=True):
        line = rf"(.* needs \w+: pip install 'outrider\[{group}\]')"
        assert re.fullmatch(rf"outrider: {line}", text.strip()), text
