"""The package as a wheel, and commands that run it."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


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
