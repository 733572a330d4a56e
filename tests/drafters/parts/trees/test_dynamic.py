"""The cost tree has the best rate of all trees, found by trying them all."""

import itertools
from collections.abc import Iterator

import pytest
import torch

from outrider import Pen, Sampling
from outrider.contract.chance import SampledChance
from outrider.contract.sheet import Sheet
from outrider.drafters.parts.trees.dynamic import DECAY
from outrider.drafters.parts.trees.tree_forms import parse_tree
from outrider.targets.tabular import TabularTarget

Path = tuple[int, ...]

TARGETS = [
    TabularTarget(2, seed=seed, sharpness=sharpness) for seed in (1, 2) for sharpness in (1, 4)
]
COSTS = [(0.0, 0.0), (0.02, 0.01), (0.1, 0.05), (0.2, 0.2), (0.6, 0.5)]


def grown(
    target: TabularTarget, passes: float, node: float, gamma: int, budget: int
) -> tuple[set[Path], int]:
    """Returns the paths of the tree's nodes, and how many levels were drafted."""
    sheet = Sheet(
        sampling=Sampling(), chance=SampledChance.seeded(0), vocab_size=2, gamma=gamma,
        budget=budget,
    )  # fmt: skip
    levels = 0

    def next_logits(paths: list[list[int]]) -> torch.Tensor:
        nonlocal levels
        levels += 1
        return torch.stack([target.logits([0, 1, *path]) for path in paths])

    parse_tree(f"cost:9,{passes},{node}").grow(Pen(sheet), next_logits)
    draft = sheet.finish()
    paths = {tuple(draft.tokens[n] for n in draft.path(node)) for node in range(len(draft))}
    return paths, levels


def value(target: TabularTarget, path: Path) -> float:
    """Returns the probability of a path, less a little for each level."""
    p = 1.0
    for depth, token in enumerate(path):
        p *= DECAY * float(target.logits([0, 1, *path[:depth]]).softmax(-1)[token])
    return p


def trees(levels: int) -> Iterator[set[Path]]:
    """Yields the nodes of every tree of some levels."""
    if levels == 0:
        yield set()
        return
    for subtrees in itertools.product([None, *trees(levels - 1)], repeat=2):
        yield {
            (token, *path)
            for token, below in enumerate(subtrees)
            if below is not None
            for path in [(), *below]
        }


def best_rate(target: TabularTarget, passes: float, node: float, levels: int, budget: int) -> float:
    """Returns the best rate of all trees of some levels."""
    paths = [path for n in range(1, levels + 1) for path in itertools.product(range(2), repeat=n)]
    values = {path: value(target, path) for path in paths}
    return max(
        (1 + sum(values[path] for path in tree)) / (1 + passes * levels + node * len(tree))
        for tree in trees(levels)
        if len(tree) <= budget
    )


@pytest.mark.parametrize(("passes", "node"), COSTS)
def test_no_tree_is_better(passes: float, node: float) -> None:
    for target, budget in itertools.product(TARGETS, (3, 14)):
        paths, levels = grown(target, passes, node, gamma=3, budget=budget)
        tokens = 1 + sum(value(target, path) for path in paths)
        rate = tokens / (1 + passes * levels + node * len(paths))
        assert rate == pytest.approx(best_rate(target, passes, node, levels, budget), abs=1e-6)
        if levels < 3:  # it stopped: no deeper tree is better
            assert rate >= best_rate(target, passes, node, 3, budget) - 1e-6


def test_a_free_tree_is_the_dynamic_tree() -> None:
    paths, levels = grown(TARGETS[0], 0, 0, gamma=3, budget=6)
    assert (len(paths), levels) == (6, 3)


def test_a_draft_as_costly_as_a_call_is_empty() -> None:
    assert grown(TARGETS[0], 0.5, 0.5, gamma=3, budget=6) == (set(), 0)
