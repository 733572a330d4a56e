"""The list of mutants is up to date; `make mutants` runs it."""

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[1] / "evidence" / "mutants.py"


@pytest.fixture(scope="module")
def script_module() -> Any:
    spec = importlib.util.spec_from_file_location("mutants", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["mutants"] = module
    spec.loader.exec_module(module)
    return module


def test_every_mutant_still_applies_to_one_line(script_module: Any) -> None:
    mutants = list(script_module.mutants())
    assert len(mutants) >= 150
    assert len({mutant.key for mutant in mutants}) == len(mutants)
    for mutant in mutants:
        source = (script_module.ROOT / mutant.file).read_text()
        assert source.count(mutant.old) == 1, f"{mutant.file}: {mutant.old!r}"
        compile(mutant.source, mutant.file, "exec")


def test_every_mutant_has_parts_to_check_and_tests_that_mirror_its_file(script_module: Any) -> None:
    for mutant in script_module.mutants():
        assert script_module.relevant(mutant), mutant.file
        assert script_module.tests_of(mutant), mutant.file


def test_the_report_counts_mutants_by_finder(
    script_module: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    one, two, three = (script_module.Mutant("a.py", old, "") for old in "xyz")
    four = script_module.Mutant("b.py", "x", "", "the same by rounding")
    lines = {
        mutant.key: {"by": by}
        for mutant, by in ((one, "kit"), (two, "tests"), (three, ""), (four, ""))
    }
    assert not script_module.report([one, two, three, four], lines)
    printed = capsys.readouterr().out
    assert "Of 3 mutants that differ, the kit finds 1 (33%), kit and tests 2 (67%)." in printed
    assert "survives: a.py: 'z' -> ''" in printed
    assert script_module.report([one, four], lines)
