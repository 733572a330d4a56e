"""The package as a wheel, environments of it and what it needs, and commands that run it."""

import json
import os
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterable, Sequence
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
Step = tuple[str, str, list[str]]
"""Kind, text and words, as `walk.py` takes them."""


def run(*command: object, cwd: Path, **variables: str) -> str:
    """Returns what a command printed; one that fails fails the test with what it said."""
    done = subprocess.run(
        [str(word) for word in command],
        check=False,
        cwd=cwd,
        env=os.environ | variables,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def walk(
    *python: object, steps: Sequence[Step], few_layers: object = "", cwd: Path, **variables: str
) -> list[tuple[str, str]]:
    """Runs steps in one process, as `walk.py` does; returns how each ended, and what it printed.

    python: the interpreter and its options.
    """
    variables |= {"COLUMNS": "200", "OMP_NUM_THREADS": "1"}
    words = (Path(__file__).with_name("walk.py"), json.dumps(steps), few_layers)
    parts = run(*python, *words, cwd=cwd, **variables).split("\f")
    return list(zip(parts[1::2], parts[::2], strict=False))


def command(*words: str) -> Step:
    return "command", " ".join(words), ["outrider", *words]


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, made from the sdist: the one that `make test` builds meanwhile, or one built here.

    That is built of a copy, since setuptools leaves its folders in the tree.
    """
    if "OUTRIDER_WHEEL" in os.environ:
        made = ROOT / os.environ["OUTRIDER_WHEEL"]
        end = time.monotonic() + 3600
        while not made.is_dir():
            assert time.monotonic() < end, f"no wheel in {made}: run `make wheel`"
            time.sleep(0.1)
        (built,) = made.glob("*.whl")
        return built
    folder = tmp_path_factory.mktemp("wheel")
    leave = shutil.ignore_patterns(
        ".*", "build", "outputs", "multirun", "*.egg-info", "__pycache__"
    )
    shutil.copytree(ROOT, folder / "copy", ignore=leave)
    script = "import sys; from setuptools.build_meta import build_sdist; build_sdist(sys.argv[1])"
    run(sys.executable, "-c", script, folder, cwd=folder / "copy")
    (sdist,) = folder.glob("*.tar.gz")
    build = ("-m", "pip", "wheel", "--quiet", "--no-deps", "-w", folder, sdist)
    run(sys.executable, *build, cwd=folder)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="session")
def unpacked(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What is in the wheel; whoever imports it leaves it compiled for the others."""
    folder = tmp_path_factory.mktemp("unpacked")
    zipfile.ZipFile(wheel).extractall(folder)
    return folder


def site_of(unpacked: Path, folder: Path, extra: str = "") -> Path:
    """Returns a folder of packages: what pip installs of a wheel with a group, and nothing else.

    What is in the wheel is linked, and what it needs is from where the tests run.
    """
    site = folder / "site"
    site.mkdir()
    for part in unpacked.iterdir():
        (site / part.name).symlink_to(part)
    (facts,) = site.glob("outrider-*.dist-info")
    link(site, _needed(Distribution.at(facts), extra))
    return site


def link(site: Path, requirements: Iterable[Requirement]) -> None:
    """Links distributions, and all that they need, into a folder of packages."""
    seen, left = set[tuple[str, str]](), [*requirements]
    while left:
        needed = left.pop()
        try:
            found = distribution(needed.name)
        except PackageNotFoundError:  # of another system
            continue
        for extra in {"", *needed.extras} - {extra for name, extra in seen if name == needed.name}:
            seen.add((needed.name, extra))
            left += _needed(found, extra)
        for top in {file.parts[0] for file in found.files or ()} - {"..", "__pycache__"}:
            if not (site / top).exists():
                (site / top).symlink_to(Path(str(found.locate_file(top))).resolve())


def _needed(owner: Distribution, extra: str) -> list[Requirement]:
    """Returns what a distribution needs, of itself a group's distributions alone."""
    needed = [Requirement(text) for text in owner.requires or ()]
    needed = [it for it in needed if it.marker is None or it.marker.evaluate({"extra": extra})]
    own = [it for it in needed if it.name == owner.metadata["Name"]]
    inner = [each for it in own for name in it.extras for each in _needed(owner, name)]
    return [it for it in needed if it not in own] + inner
