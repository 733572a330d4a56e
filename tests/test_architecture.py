"""The architecture: imports follow the layers in pyproject.toml, which the docs draw."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
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
        env=os.environ | {"PYTHONPATH": f"{folder}{os.pathsep}{ROOT / 'tests'}"},
        cwd=folder,
        capture_output=True,
        text=True,
    )


def test_imports_run_downwards_and_never_in_a_circle(tmp_path: Path) -> None:
    done = lint(laid_out(tmp_path))
    assert done.returncode == 0, done.stdout
    assert "4 kept, 0 broken" in done.stdout


def test_an_import_upwards_is_found(tmp_path: Path) -> None:
    """The contract sees the code that is checked, imports inside functions included."""
    folder = laid_out(tmp_path)
    pen = folder / "outrider" / "contract" / "pen.py"
    pen.write_text(pen.read_text() + "\n\ndef up():\n    from outrider.decoding import rounds\n")
    done = lint(folder)
    assert done.returncode == 1
    assert "outrider.contract.pen -> outrider.decoding.rounds" in done.stdout


def test_a_product_imports_no_other_and_nothing_but_the_stable_api(tmp_path: Path) -> None:
    folder = laid_out(tmp_path)
    graphs = folder / "outrider" / "extras" / "graphs" / "engines.py"
    imports = "from outrider.decoding import rounds\nfrom outrider.extras.bench import report\n"
    graphs.write_text(graphs.read_text() + imports)
    done = lint(folder)
    assert done.returncode == 1
    for imported in ("outrider.decoding.rounds", "outrider.extras.bench.report"):
        assert f"outrider.extras.graphs.engines -> {imported}" in done.stdout


def test_the_page_lists_the_names_that_products_may_import() -> None:
    page = (ROOT / "docs" / "api-stability.md").read_text()
    table = page.partition("## For products")[2].partition("## ")[0]
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    (stable,) = [it["stable"] for it in contracts["contracts"] if it["type"] == "products"]
    assert sorted(re.findall(r"`(outrider\.[\w.]+)`", table)) == stable


def test_models_are_read_through_one_door() -> None:
    """Transformers asks whether a folder's own code may run, unless it is told."""
    folders = ("core", "drafters", "verifiers", "policies", "constraints", "extras")
    sources = (path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    calls = re.compile(r"(?:\w+\.from_pretrained|auto\.from_config)\(.*")
    found = {(path.name, call) for path in sources for call in calls.findall(path.read_text())}
    assert sorted(found) == [
        ("peer.py", 'auto.from_pretrained(settings["model"], **options).eval()'),
        ("pretrained.py", "auto.from_pretrained(name, **({TRUST: False} | options))"),
        ("stored.py", "auto.from_config(config, **{TRUST: False}, dtype=torch.float32)"),
        ("weight_files.py", "PeftModel.from_pretrained(model, str(folder))"),
    ]
