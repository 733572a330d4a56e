"""`pip install .` alone, without any extra, decodes, compares and proves."""

import json
import sys
import zipfile
from importlib.metadata import PackageNotFoundError, distribution, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from tiny.packages import run

pytestmark = pytest.mark.first
PROMPT = json.dumps({"prompt": "the cat sat on the mat"})
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
    return run(sys.executable, "-S", *words, cwd=cwd, PYTHONPATH=str(site))


def test_a_plain_installation_has_no_library_of_an_extra(plain_site: Path, tmp_path: Path) -> None:
    script = "from importlib.util import find_spec; import sys, outrider; print(outrider.__file__)"
    script += "; print(*[name for name in sys.argv[1:] if find_spec(name)])"
    where, there = ran(plain_site, tmp_path, "-c", script, *UNUSED).splitlines()
    assert Path(where) == plain_site / "outrider" / "__init__.py"
    assert not there


@pytest.mark.parametrize(
    "command",
    [
        ["generate", "prompt=the cat", "drafter=prompt_lookup", "chat=false"],
        ["compare", "drafters=[none,bigram]", "data=jsonl", "data.path=prompts.jsonl"],
        ["check", "drafter=prompt_lookup"],
        ["theory", "alpha=.7", "gamma=5", "c=.05"],
        ["doctor"],
        ["plugins"],
    ],
    ids=lambda command: command[0],
)
def test_a_plain_installation_runs_its_commands(
    command: list[str], plain_site: Path, folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "prompts.jsonl").write_text(PROMPT)
    model = ["target=transformers", f"target.model={folder}", "max_new_tokens=4"]
    own = model if command[0] in ("generate", "compare") else []
    assert ran(plain_site, tmp_path, "-m", "outrider", *command, *own)
