"""Conventions of the tests themselves: names that read alone in a red line, and public doors."""

import ast
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
NO_SUBJECTS = ("it", "its", "they", "them", "there", "what", "whatever")
"""First words that leave open what a test is about."""


def test_names_of_tests_have_a_subject() -> None:
    names = [name for name in _test_names() if name.split("_")[1] in NO_SUBJECTS]
    assert not names
    vague = [name for name in _test_names() if {"what", "goes", "there"} & set(name.split("_"))]
    assert not vague


def _test_names() -> Iterator[str]:
    for path in HERE.rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                yield node.name
