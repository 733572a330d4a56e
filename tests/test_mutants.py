"""Mutants fit the code as it is; `make mutants` runs them."""

import sys
from importlib.util import module_from_spec
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "evidence"))
import mutants
from mutation import ROOT, Finder, Mutant


def test_every_mutant_differs_and_has_parts_and_tests_that_mirror_its_file() -> None:
    assert {"token", "rejection"} <= set(mutants.RULE_FILES)
    some = mutants.wanted((), 100)
    assert len(some) >= 20 and len({mutant.operator for mutant in some}) >= 5
    for mutant in some:
        assert mutant.source != (ROOT / mutant.file).read_text()
        compile(mutant.source, mutant.file, "exec")
        assert mutants.relevant(mutant) and mutants.tests_of(mutant), mutant.file


def test_a_module_is_loaded_as_its_mutant() -> None:
    finder = Finder(Mutant("verifiers/prefix.py", "ReplaceFalseWithTrue", 0))
    spec = finder.find_spec("outrider.verifiers.prefix", None)
    module: Any = module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.leading([True, False]) == 0  # in place of 1
    assert finder.find_spec("outrider.verifiers.block", None) is None


def test_the_report_counts_mutants_by_finder(capsys: pytest.CaptureFixture[str]) -> None:
    some = [Mutant("a.py", "AddNot", number) for number in range(5)]
    found = ("kit", "tests", "tests", "", mutants.NOT_BUILT)
    lines = {mutant.key: {"by": by} for mutant, by in zip(some, found, strict=True)}
    assert mutants.report(some, lines)
    printed = capsys.readouterr().out
    assert "Of 4 that may differ, the kit finds 1 (25%), kit and tests 3 (75%)." in printed
    assert "survives: a.py:AddNot 3" in printed
    assert not mutants.report(some[1:], lines)


@pytest.mark.parametrize("role", ["verifier", "target"])
def test_a_part_that_can_not_be_made_is_not_found_by_a_check(
    role: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    unknown = {"no_such": 1}
    monkeypatch.setattr(mutants, "relevant", lambda _: [(role, "token", unknown)])
    assert mutants.kit(Mutant("a.py", "AddNot", 0)).startswith(mutants.NOT_BUILT)

    def check_it(make: object) -> None:
        raise AssertionError("is wrong")

    monkeypatch.setattr(mutants, "built", lambda *_: (int, [check_it]))
    assert mutants.kit(Mutant("a.py", "AddNot", 0)) == "token: check_it: is wrong"
