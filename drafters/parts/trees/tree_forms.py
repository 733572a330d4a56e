"""How a config writes the shape of a draft, such as "3x2x1" or "dynamic:8"."""

import json
import re
from collections.abc import Sequence
from typing import Any

from outrider.base.errors import ConfigError, is_int, require, shown
from outrider.drafters.parts.trees.dynamic import CostTree, Dynamic, Replayed
from outrider.drafters.parts.trees.shapes import Chain, Path, Sequoia, Shape, Static

FORMS = (
    "a shape: 3x2x1 (siblings drawn without replacement), iid:3x2, paths:4,"
    " top:3x2 (the likeliest), [[0],[0,0],[1]] or top:[[0],[0,0],[1]] (paths of ranks),"
    " dynamic:8, replay:8, sequoia:.6,.2,.1,"
    " cost:8,.1,.02 (width, cost of a pass of the drafter, of a node)"
)

GROWN: dict[str, type[Dynamic | Replayed]] = {"dynamic": Dynamic, "replay": Replayed}
"""Trees that are grown by likelihood, by the name before their width."""


def parse_tree(form: Any) -> Shape:
    """Returns the shape that a config describes; None stands for a chain.

    >>> parse_tree("3x2").kind
    'distinct'

    Raises `ConfigError` if `form` is not one of FORMS.
    """
    if form is None:
        return Chain()
    if isinstance(form, Sequence) and not isinstance(form, str):
        return _from_paths(form, "distinct")
    kind, _, rest = str(form).rpartition(":")
    if re.fullmatch(r"\d+(x\d+)*", rest) and kind in ("", "iid", "top"):
        widths = tuple(map(int, rest.split("x")))
        require(min(widths) >= 1, "drafter.tree", form, "widths of at least 1")
        return Static(widths, {"": "distinct", "iid": "iid", "top": "deterministic"}[kind])
    if kind in GROWN and rest.isdigit() and int(rest) >= 1:
        return GROWN[kind](int(rest))
    if kind == "paths" and rest.isdigit() and int(rest) >= 1:
        return Static({(): int(rest)}, "paths")
    if kind == "sequoia" and re.fullmatch(r"[\d.]+(,[\d.]+)*", rest):
        rates = tuple(map(float, rest.split(",")))
        is_valid = all(0 <= rate <= 1 for rate in rates) and 0 < sum(rates) <= 1 + 1e-9
        require(is_valid, "drafter.tree", form, "probabilities that add up to at most 1")
        return Sequoia(rates)
    if kind == "cost" and re.fullmatch(r"[1-9]\d*(,(\d+\.?\d*|\.\d+)){2}", rest):
        width, *costs = rest.split(",")
        return CostTree(int(width), float(costs[0]), float(costs[1]))
    if kind == "top" and re.fullmatch(r"[\[\]\d, ]+", rest):
        return _from_paths(json.loads(rest), "deterministic")
    raise ConfigError(f"drafter.tree={shown(form)}: expected {FORMS}")


def _from_paths(paths: Sequence[Sequence[int]], kind: str) -> Static:
    """Returns the shape with a node at the end of each path of ranks, as Medusa lists its choices.

    Raises `ConfigError` if a path is not one of ranks, or lacks its parent or an earlier sibling.
    """
    nodes = [tuple(path) for path in paths]
    known = {(), *nodes}
    is_valid = len(nodes) > 0 and all(
        path and all(is_int(rank) and rank >= 0 for rank in path) for path in nodes
    )
    is_valid = is_valid and all(
        path[:-1] in known and (not path[-1] or (*path[:-1], path[-1] - 1) in known)
        for path in nodes
    )
    require(
        is_valid, "drafter.tree", paths, "paths of ranks, each with its parent and earlier siblings"
    )
    widths: dict[Path, int] = {}
    for path in nodes:
        widths[path[:-1]] = max(widths.get(path[:-1], 0), path[-1] + 1)
    return Static(widths, kind)
