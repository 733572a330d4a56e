"""`outrider new-plugin`: what it writes is a package whose tests pass."""

import importlib
import runpy
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from outrider.base.errors import ConfigError
from outrider.cli.commands.new_plugin import TEMPLATES, write_plugin
from outrider.plugins.registry import registry_from
from outrider.plugins.roles import ROLES

EXAMPLE = Path(__file__).parents[3] / "examples" / "outrider-my-bigram"


@pytest.fixture
def importable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for packages, and the way to forget them after the test."""
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.startswith("outrider_"):
            monkeypatch.delitem(sys.modules, name)


def test_every_role_has_a_template() -> None:
    assert set(TEMPLATES) == {*ROLES, "command"}


@pytest.mark.parametrize("role", TEMPLATES)
def test_a_written_package_registers_its_part_and_passes_its_tests(
    role: str, importable: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_plugin(f"outrider-my-{role}", [role], importable)
    monkeypatch.syspath_prepend(str(folder))
    settings = tomllib.loads((folder / "pyproject.toml").read_text())
    entry_points = settings["project"]["entry-points"]["outrider"]
    assert entry_points == {f"my_{role}": f"outrider_my_{role}"}
    module = importlib.import_module(entry_points[f"my_{role}"])
    registry = registry_from([module], installed=False)
    assert f"outrider_my_{role}.{role}" not in sys.modules  # nor what it imports, such as torch
    made = registry.find(role, f"my_{role}").factory
    assert made.__name__ in (f"My{role.title()}", f"my_{role}")
    if role == "command":
        return  # its test takes the fixtures of pytest, which runs it where it is installed

    tests = runpy.run_path(str(folder / f"test_my_{role}_{role}.py"))
    test: Any = tests[f"test_my_{role}_keeps_the_contract"]
    (mark,) = test.pytestmark
    assert mark.args[1]
    for case in mark.args[1]:
        test(*getattr(case, "values", case))


def test_a_package_of_several_roles_registers_each(
    run: Any, importable: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    roles = ["constraint", "data", "command"]
    out = run.done("new-plugin", "my-lab", "--role", ",".join(roles), "--out", str(importable))
    assert "outrider my_lab demo" in out
    for role, *flags in [[roles[0]], *([it, "--add"] for it in roles[1:])]:
        run.done("new-plugin", "my-lab", "--role", role, *flags, "--out", "added")
    folder = importable / "outrider-my-lab"
    assert contents(Path("added") / folder.name) == contents(folder)
    monkeypatch.syspath_prepend(str(folder))
    settings = tomllib.loads((folder / "pyproject.toml").read_text())
    assert settings["project"]["entry-points"]["outrider"] == {"my_lab": "outrider_my_lab"}
    registry = registry_from([importlib.import_module("outrider_my_lab")], installed=False)
    for role in roles:
        assert registry.find(role, "my_lab").factory is not None
    tests = [runpy.run_path(str(file)) for file in folder.glob("test_*.py")]
    assert all(any(name.startswith("test_my_lab") for name in each) for each in tests)
    assert len(tests) == len(roles)
    err = run.refused("new-plugin", "my-lab", "--role", "data", "--add", "--out", str(importable))
    assert "expected another role" in err


def contents(folder: Path) -> dict[str, str]:
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_text() for path in paths}


def test_the_example_is_the_written_package_with_a_preset(tmp_path: Path) -> None:
    folder = write_plugin("my-bigram", ["drafter"], tmp_path)
    for name, text in contents(folder).items():
        assert (EXAMPLE / name).read_text().startswith(text), name


def test_new_plugin_prints_the_next_steps(run: Any, tmp_path: Path) -> None:
    out = run.done("new-plugin", "my-bigram", "--role", "policy")
    assert (tmp_path / "outrider-my-bigram" / "outrider_my_bigram" / "policy.py").is_file()
    for line in ("pip install", "  pytest", "outrider check policy=my_bigram"):
        assert line in out
    err = run.refused("new-plugin", "my-bigram")
    assert "expected another name, outrider-my-bigram exists" in err


@pytest.mark.parametrize("name", ["Echo", "9", "a b", "../up", "outrider-"])
def test_a_wrong_name_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="expected lower-case letters"):
        write_plugin(name, ["drafter"], tmp_path)
