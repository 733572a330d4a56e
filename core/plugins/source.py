"""The parameters of a part, read from the source of its module, which need not be imported."""

import ast
import inspect
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from outrider.plugins.entry import Entry
from outrider.plugins.roles import ROLES

KEEPING = ("checked", "dataclass", "final")
"""The decorators that leave the parameters of what they decorate as they are."""

BASES = {(role.base or "").rpartition(":")[2] for role in ROLES.values()}
"""The base classes of parts, none of which has parameters."""

REQUIRED = inspect.Parameter.empty


def parameters_of(entry: Entry) -> dict[str, Any]:
    """Returns the parameters of a part's factory by name, each with its default or `REQUIRED`.

    They come from the signature where the source leaves a question, as a base class elsewhere does.
    """
    read = _read(entry.source) if isinstance(entry.source, str) else None
    return in_signature(entry.factory) if read is None else read


def in_signature(factory: Any) -> dict[str, Any]:
    """Returns the parameters of a class or function likewise."""
    parameters = inspect.signature(factory).parameters.values()
    several = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return {each.name: each.default for each in parameters if each.kind not in several}


def _read(place: str) -> dict[str, Any] | None:
    module, _, name = place.partition(":")
    try:
        spec = find_spec(module)  # imports the packages above it, which import little
    except ImportError:
        return None  # the import says what is wrong
    if spec is None or not (spec.origin or "").endswith(".py"):
        return None
    tree = ast.parse(Path(str(spec.origin)).read_text(encoding="utf-8"))
    assigned = (node for node in tree.body if isinstance(node, ast.Assign))
    values = {ast.unparse(node.targets[0]): node.value for node in assigned}
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == name:
            try:
                return {
                    key: REQUIRED if value is None else _value(value, values)
                    for key, value in _parameters(node)
                }
            except ValueError:
                return None
    return None


def _parameters(node: ast.ClassDef | ast.FunctionDef) -> Iterator[tuple[str, ast.expr | None]]:
    """Yields the parameters of a function, or of a class or a dataclass, with their defaults.

    Raises `ValueError` if they may come from a decorator or a base class.
    """
    decorators = {ast.unparse(each).partition("(")[0] for each in node.decorator_list}
    if not decorators <= set(KEEPING):
        raise ValueError(node.name)
    if isinstance(node, ast.FunctionDef):
        placed = [*node.args.posonlyargs, *node.args.args]
        lacking = [None] * (len(placed) - len(node.args.defaults))
        yield from zip((it.arg for it in placed), [*lacking, *node.args.defaults], strict=True)
        yield from zip((it.arg for it in node.args.kwonlyargs), node.args.kw_defaults, strict=True)
        return
    for part in node.body:
        if isinstance(part, ast.FunctionDef) and part.name == "__init__":
            yield from list(_parameters(part))[1:]
            return
    if not {ast.unparse(base) for base in node.bases} <= BASES:
        raise ValueError(node.name)
    if "dataclass" in decorators:
        fields = (part for part in node.body if isinstance(part, ast.AnnAssign))
        yield from ((ast.unparse(each.target), each.value) for each in fields)


def _value(node: ast.expr, values: dict[str, ast.expr]) -> Any:
    """Returns the value of an expression, which may be a constant of the module."""
    return ast.literal_eval(values.get(ast.unparse(node), node))
