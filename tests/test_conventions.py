"""Conventions of the tests themselves: names that read alone in a red line, and public doors."""

import ast
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
NO_SUBJECTS = ("it", "its", "they", "them", "there", "what", "whatever")
"""First words that leave open what a test is about."""


def test_names_of_tests_have_a_subject() -> None:
    names = [*_test_names()]
    assert not [name for name in names if name.split("_")[1] in NO_SUBJECTS]
    assert not [name for name in names if {"what", "goes", "there"} & set(name.split("_"))]


def _test_names() -> Iterator[str]:
    for path in HERE.rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                yield node.name


THEIRS = ("torch", "atexit", "os", "sys", "node", "model", "layer")
"""Modules and objects of others, whose private names are not Outrider's."""
MOST = 40
"""Uses of private names in all tests: parts that no public door shows, or patches of a fault."""


def test_few_tests_know_private_names() -> None:
    uses = [use for path in HERE.rglob("*.py") for use in _private_names(path)]
    assert len(uses) <= MOST, "\n".join(uses)


def _private_names(path: Path) -> Iterator[str]:
    """Yields the private attributes of objects, imports and patches of private names."""
    for node in ast.walk(ast.parse(path.read_text())):
        names, whose = list[str](), ""
        if isinstance(node, ast.Attribute):
            names, whose = [node.attr], ast.unparse(node.value).partition(".")[0]
        elif isinstance(node, ast.ImportFrom):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("setattr"):
            names = [ast.unparse(argument).strip("'").rpartition(".")[2] for argument in node.args]
        if whose in ("self", "cls", *THEIRS):
            continue
        for name in names:
            # A notebook's `_repr_html_`, as what has two underscores, is a public protocol.
            if name.startswith("_") and not name.startswith("__") and not name.endswith("_"):
                yield f"{path.name}:{node.lineno}: {name}"
