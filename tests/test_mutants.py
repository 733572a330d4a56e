"""Faults that are made on purpose fit the code as it is; `make mutants` runs them."""

import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from importlib.util import module_from_spec
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "evidence"))
import mutants
from faults import EQUIVALENT, OF_A_RULE, RULES, faults
from mutation import ROOT, Fault, Finder, Mutant, module_of

NAMED = list(faults())


@cache
def some_of_all() -> list[mutants.Judged]:
    """Returns the named faults, and one in a hundred of the generated mutants."""
    return mutants.wanted((), 100)


def test_every_named_fault_finds_its_function() -> None:
    assert len(NAMED) >= 120 and len({fault.key for fault in NAMED}) == len(NAMED)
    assert {*EQUIVALENT} <= {(rule, name) for rule in RULES for name in OF_A_RULE}
    for fault in NAMED:
        module: Any = import_module(module_of(fault.file))
        for name in fault.function.split("."):
            module = vars(module)[name]
        assert callable(fault.patch(module)), fault.key


def test_every_generated_mutant_differs_and_compiles() -> None:
    generated = [fault for fault in some_of_all() if isinstance(fault, Mutant)]
    assert len(generated) >= 20 and len({mutant.operator for mutant in generated}) >= 5
    for mutant in generated:
        assert mutant.source != (ROOT / mutant.file).read_text()
        compile(mutant.source, mutant.file, "exec")


def test_every_fault_has_parts_to_check_and_tests_that_mirror_its_file() -> None:
    for fault in some_of_all():
        assert mutants.relevant(fault), fault.file
        assert mutants.tests_of(fault), fault.file


@pytest.mark.parametrize(
    "fault",
    [
        Mutant("verifiers/prefix.py", "ReplaceFalseWithTrue", 1),
        Fault("verifiers/prefix.py", "leading", "none", lambda _: lambda coins: 0),
    ],
)
def test_a_module_is_loaded_with_its_fault(fault: Any) -> None:
    spec = Finder(fault).find_spec("outrider.verifiers.prefix", None)
    module: Any = module_from_spec(spec)
    spec.loader.exec_module(module)
    assert [_result(module.leading, coins) for coins in ([True], [False])] != [1, 0]
    assert Finder(fault).find_spec("outrider.verifiers.block", None) is None


def _result(leading: Callable[[list[bool]], int], coins: list[bool]) -> int | None:
    try:
        return leading(coins)
    except ValueError:
        return None


def test_the_report_counts_faults_by_finder(capsys: pytest.CaptureFixture[str]) -> None:
    one, two, three = (Fault("a.py", "f", name, lambda right: right) for name in "xyz")
    four = Fault("b.py", "f", "x", lambda right: right, "the same by rounding")
    five = Mutant("b.py", "AddNot", 0)
    six = Mutant("b.py", "AddNot", 1)
    found = ((one, "kit"), (two, "tests"), (three, ""), (four, ""), (five, ""), (six, "not built"))
    lines = {fault.key: {"by": by} for fault, by in found}
    assert not mutants.report([one, two, three, four, six], lines)
    printed = capsys.readouterr().out
    assert "Of 3 that may differ, the kit finds 1 (33%), kit and tests 2 (67%)." in printed
    assert "survives: a.py:f z" in printed
    assert mutants.report([one, four, five, six], lines)
    assert not mutants.report([one], {one.key: {"by": "not built"}})


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
