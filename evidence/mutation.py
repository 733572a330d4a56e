"""Faulty code, made on purpose: the mutants of cosmic-ray.

No line of the code is quoted, so that a refactoring leaves all this as it is.
"""

import ast
import hashlib
import importlib.abc
import importlib.machinery
import importlib.util
import runpy
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator

ROOT = Path(__file__).parents[1]
RULES = runpy.run_path(str(ROOT / "verifiers" / "plugin.py"))
RULE_FILES = {name: RULES["MODULES"].get(name, name) for name in RULES["VERIFIERS"]}
"""By the name of a rule, the name of its file."""
EXCHANGED = {
    "Comparison": ("Lt_LtE", "LtE_Lt", "Gt_GtE", "GtE_Gt", "Eq_NotEq", "NotEq_Eq", "Is_IsNot"),
    "Binary": ("Add_Sub", "Sub_Add", "Mul_Div", "Div_Mul"),
}
OPERATORS = (
    *(f"Replace{kind}Operator_{pair}" for kind, pairs in EXCHANGED.items() for pair in pairs),
    *("ReplaceTrueWithFalse", "ReplaceFalseWithTrue", "ReplaceAndWithOr", "ReplaceOrWithAnd"),
    *("AddNot", "NumberReplacer", "ZeroIterationForLoop", "ReplaceContinueWithBreak"),
)
"""The operators of cosmic-ray that are used: others change a type more often than a law."""


@dataclass(frozen=True)
class Mutant:
    """A file in which an operator changes one place, numbered from 0."""

    file: str
    operator: str
    occurrence: int

    @property
    def key(self) -> str:
        """Returns what identifies the mutant in a file of results."""
        return f"{self.file}:{self.operator} {self.occurrence}"

    @property
    def source(self) -> str:
        """Returns the changed source."""
        operator = get_operator(f"core/{self.operator}")()
        changed = mutate_code((ROOT / self.file).read_text(), operator, self.occurrence)
        assert changed is not None, f"{self.key}: there is no such place"
        return str(changed)


def mutants(file: str) -> Iterator[Mutant]:
    """Yields all mutants of a file: of what functions do, but for the messages of errors."""
    source = (ROOT / file).read_text()
    nodes, lines = list(ast_nodes(get_ast(source))), _lines(source)
    for name in OPERATORS:
        operator = get_operator(f"core/{name}")()
        places = [place for node in nodes for place in operator.mutation_positions(node)]
        for occurrence, ((line, _), _) in enumerate(places):
            if line in lines:
                yield Mutant(file, name, occurrence)


def _lines(source: str) -> set[int]:
    """Returns the numbers of the lines that decide what happens: no signatures and errors."""
    tree, lines = ast.parse(source), set[int]()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines |= set(range(node.body[0].lineno, (node.end_lineno or 0) + 1))
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise | ast.arguments | ast.JoinedStr) and hasattr(node, "lineno"):
            lines -= set(range(node.lineno, (node.end_lineno or 0) + 1))
    return lines


@cache
def sampled(file: str, every: int) -> list[Mutant]:
    """Returns about one mutant of so many; which ones does not depend on the others."""
    return [mutant for mutant in mutants(file) if _number(mutant.key) % every == 0]


def module_of(file: str) -> str:
    """Returns the name of the module that a file is installed as."""
    folder, *rest = Path(file).with_suffix("").parts
    return ".".join(["outrider", *([] if folder == "core" else [folder]), *rest])


class Finder(importlib.abc.MetaPathFinder):
    """Loads one module as a mutant."""

    def __init__(self, mutant: Mutant) -> None:
        self._mutant = mutant

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name != module_of(self._mutant.file):
            return None
        file = ROOT / self._mutant.file
        return importlib.util.spec_from_file_location(name, file, loader=_Loader(self._mutant))


class _Loader(importlib.machinery.SourceFileLoader):
    def __init__(self, mutant: Mutant) -> None:
        super().__init__(module_of(mutant.file), str(ROOT / mutant.file))
        self._mutant = mutant

    def get_code(self, fullname: str) -> Any:
        return compile(self._mutant.source, self._mutant.file, "exec")


def _number(key: str) -> int:
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "little")
