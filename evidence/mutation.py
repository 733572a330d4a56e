"""Faulty code, made on purpose: operators on syntax trees, and patches of whole functions.

No line of the code is quoted, so that a refactoring leaves all this as it is.
"""

import ast
import copy
import hashlib
import importlib.abc
import importlib.machinery
import importlib.util
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, get_type_hints

ROOT = Path(__file__).parents[1]
PAIRS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.And: ast.Or,
    ast.Or: ast.And,
}  # fmt: skip
NAMES = {
    "min": "max", "max": "min", "any": "all", "all": "any", "argmax": "argmin",
    "minimum": "maximum", "maximum": "minimum", "amax": "amin", "argmin": "argmax",
}  # fmt: skip


def compare(node: ast.Compare) -> ast.AST | None:
    """Moves the bound of a comparison, or turns it round."""
    if type(node.ops[0]) not in PAIRS:
        return None
    node.ops[0] = PAIRS[type(node.ops[0])]()  # type: ignore[call-overload]
    return node


def arithmetic(node: ast.BinOp | ast.BoolOp | ast.AugAssign) -> ast.AST | None:
    """Exchanges + and -, * and /, `and` and `or`."""
    if type(node.op) not in PAIRS:
        return None
    node.op = PAIRS[type(node.op)]()  # type: ignore[call-overload]
    return node


def extreme(node: ast.Call) -> ast.AST | None:
    """Exchanges the smallest and the largest, any and all; takes a bound away."""
    if isinstance(node.func, ast.Name) and node.func.id in NAMES:
        node.func.id = NAMES[node.func.id]
    elif isinstance(node.func, ast.Attribute) and node.func.attr in NAMES:
        node.func.attr = NAMES[node.func.attr]
    elif isinstance(node.func, ast.Attribute) and node.func.attr == "clamp":
        return node.func.value
    else:
        return None
    return node


def constant(node: ast.Constant) -> ast.AST | None:
    """Adds 1 to a number, and negates a truth value."""
    if not isinstance(node.value, int | float):
        return None
    return ast.Constant(not node.value if isinstance(node.value, bool) else node.value + 1)


def drop(node: ast.Expr | ast.Assign | ast.AugAssign) -> ast.AST | None:
    """Leaves a call or a change of something kept out."""
    call = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    kept = isinstance(node, ast.Assign) and not isinstance(node.targets[0], ast.Name | ast.Tuple)
    return ast.Pass() if call or kept or isinstance(node, ast.AugAssign) else None


def swap(node: ast.Call) -> ast.AST | None:
    """Swaps the first two arguments of a call."""
    if len(node.args) < 2 or any(isinstance(argument, ast.Starred) for argument in node.args[:2]):
        return None
    node.args[:2] = reversed(node.args[:2])
    return node


def condition(node: ast.If | ast.IfExp) -> ast.AST | None:
    """Takes the other branch."""
    node.test = ast.UnaryOp(ast.Not(), node.test)
    return node


def returned(node: ast.Return) -> ast.AST | None:
    """Returns the first argument of the last call instead of its result."""
    if not isinstance(node.value, ast.Call):
        return None
    if not node.value.args or isinstance(node.value.args[0], ast.Starred):
        return None
    return ast.Return(node.value.args[0])


OPERATORS = {
    operator.__name__: operator
    for operator in (compare, arithmetic, extreme, constant, drop, swap, condition, returned)
}
KINDS = {name: get_type_hints(operator)["node"] for name, operator in OPERATORS.items()}
"""By operator the nodes that it may change."""
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Mutant:
    """A function of a file in which an operator changes one place, numbered from 0."""

    file: str
    function: str
    operator: str
    ordinal: int

    @property
    def key(self) -> str:
        """Returns what identifies the mutant in a file of results."""
        return f"{self.file}:{self.function} {self.operator} {self.ordinal}"

    @property
    def source(self) -> str:
        """Returns the changed source."""
        tree = copy.deepcopy(_tree(self.file))
        places = list(_places(_functions(tree)[self.function], self.operator))
        _Replacement(*places[self.ordinal]).visit(tree)
        return ast.unparse(ast.fix_missing_locations(tree))


@dataclass(frozen=True)
class Fault:
    """A function of a file that is replaced by what `patch` makes of it.

    equivalent: why nothing can find it, or "".
    """

    file: str
    function: str
    name: str
    patch: Callable[[Any], Any]
    equivalent: str = ""

    @property
    def key(self) -> str:
        """Returns what identifies the fault in a file of results."""
        return f"{self.file}:{self.function} {self.name}"

    def apply(self, module: ModuleType) -> None:
        """Replaces the function in its module."""
        *owners, name = self.function.split(".")
        owner: Any = module
        for part in owners:
            owner = getattr(owner, part)
        original = vars(owner)[name]
        setattr(owner, name, self.patch(original))


def mutants(file: str) -> Iterator[Mutant]:
    """Yields all mutants of a file."""
    for function, node in _functions(copy.deepcopy(_tree(file))).items():
        for operator in OPERATORS:
            for ordinal, _ in enumerate(_places(node, operator)):
                yield Mutant(file, function, operator, ordinal)


def sampled(file: str, every: int) -> list[Mutant]:
    """Returns about one mutant of so many; which ones does not depend on the others."""
    return [mutant for mutant in mutants(file) if _number(mutant.key) % every == 0]


def module_of(file: str) -> str:
    """Returns the name of the module that a file is installed as."""
    folder, *rest = Path(file).with_suffix("").parts
    return ".".join(["outrider", *([] if folder == "core" else [folder]), *rest])


class Finder(importlib.abc.MetaPathFinder):
    """Loads one module with a fault in it."""

    def __init__(self, fault: Mutant | Fault) -> None:
        self._fault = fault

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name != module_of(self._fault.file):
            return None
        file = ROOT / self._fault.file
        return importlib.util.spec_from_file_location(name, file, loader=_Loader(self._fault))


class _Loader(importlib.machinery.SourceFileLoader):
    def __init__(self, fault: Mutant | Fault) -> None:
        super().__init__(module_of(fault.file), str(ROOT / fault.file))
        self._fault = fault

    def get_code(self, fullname: str) -> Any:
        if isinstance(self._fault, Fault):
            return super().get_code(fullname)
        return compile(self._fault.source, self._fault.file, "exec")

    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        if isinstance(self._fault, Fault):
            self._fault.apply(module)


class _Replacement(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self._old, self._new = old, new

    def visit(self, node: ast.AST) -> Any:
        return self._new if node is self._old else self.generic_visit(node)


@cache
def _tree(file: str) -> ast.Module:
    return ast.parse((ROOT / file).read_text())


def _functions(tree: ast.Module) -> dict[str, Function]:
    """Returns functions and methods by qualified name; inner ones are part of their outer one."""
    found: dict[str, Function] = {}
    for node in tree.body:
        members = node.body if isinstance(node, ast.ClassDef) else [node]
        prefix = f"{node.name}." if isinstance(node, ast.ClassDef) else ""
        for member in members:
            if isinstance(member, Function):
                found.setdefault(prefix + member.name, member)
    return found


def _places(node: ast.AST, operator: str) -> Iterator[tuple[ast.AST, ast.AST]]:
    """Yields the nodes that an operator changes, each with what it becomes."""
    for inner in _code(node):
        if not isinstance(inner, KINDS[operator]):
            continue
        if (new := OPERATORS[operator](copy.deepcopy(inner))) is not None:
            yield inner, new


def _code(node: ast.AST) -> Iterator[ast.AST]:
    """Yields the nodes that decide what happens: no annotations, messages and docstrings."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "type_params"):
            continue
        for inner in value if isinstance(value, list) else [value]:
            if isinstance(inner, ast.AST) and not isinstance(inner, ast.Raise | ast.JoinedStr):
                yield inner
                yield from _code(inner)


def _number(key: str) -> int:
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "little")
