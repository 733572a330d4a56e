"""The architecture: imports follow the layers in pyproject.toml, which the docs draw."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def laid_out(folder: Path) -> Path:
    """Returns a copy of the sources laid out as the package that they install as."""
    shutil.copytree(ROOT / "core", folder / "outrider")
    for part in ("drafters", "verifiers", "policies", "constraints", "extras", "conf"):
        leave = shutil.ignore_patterns("weights")
        shutil.copytree(ROOT / part, folder / "outrider" / part, ignore=leave)
    return folder


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    command = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    return subprocess.run(
        [sys.executable, "-c", command, "--no-cache", "--config", str(ROOT / "pyproject.toml")],
        check=False,
        env=os.environ | {"PYTHONPATH": str(folder)},
        cwd=folder,
        capture_output=True,
        text=True,
    )


def test_imports_run_downwards_and_never_in_a_circle(tmp_path: Path) -> None:
    done = lint(laid_out(tmp_path))
    assert done.returncode == 0, done.stdout
    assert "3 kept, 0 broken" in done.stdout


def test_an_import_upwards_is_found(tmp_path: Path) -> None:
    """The contract sees the code that is checked, imports inside functions included."""
    folder = laid_out(tmp_path)
    pen = folder / "outrider" / "contract" / "pen.py"
    pen.write_text(pen.read_text() + "\n\ndef up():\n    from outrider.decoding import rounds\n")
    done = lint(folder)
    assert done.returncode == 1
    assert "outrider.contract.pen -> outrider.decoding.rounds" in done.stdout
