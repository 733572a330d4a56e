"""The cost tree has the best rate of all trees, found by trying them all; replays draw into one."""

import itertools
from collections.abc import Iterator, Sequence
from typing import final

import pytest
import torch
from tiny.pens import new_pen

from outrider import Context, Drafter, Pen, Sampling, Tokens, decode
from outrider.contract.chance import SampledChance
from outrider.contract.sheet import Sheet
from outrider.decoding.kinds import violation
from outrider.drafters.parts.trees.dynamic import DECAY
from outrider.drafters.parts.trees.shapes import one_by_one
from outrider.drafters.parts.trees.tree_forms import parse_tree
from outrider.targets.tabular import TabularTarget
from outrider.verifiers.recursive import Candidates
from outrider.verifiers.traversal import Traversal

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
def test_no_tree_of_as_many_levels_is_better(passes: float, node: float) -> None:
    for target, budget in itertools.product(TARGETS, (3, 14)):
        paths, levels = grown(target, passes, node, gamma=3, budget=budget)
        tokens = 1 + sum(value(target, path) for path in paths)
        rate = tokens / (1 + passes * levels + node * len(paths))
        assert rate == pytest.approx(best_rate(target, passes, node, levels, budget), abs=1e-6)


def test_the_rate_is_near_that_of_the_best_depth() -> None:
    losses = []
    for seed, sharpness, (passes, node) in itertools.product(range(5), (1, 2, 4), COSTS):
        target = TabularTarget(2, seed=seed, sharpness=sharpness)
        paths, levels = grown(target, passes, node, gamma=4, budget=6)
        tokens = 1 + sum(value(target, path) for path in paths)
        rate = tokens / (1 + passes * levels + node * len(paths))
        best = max(rate_of_likeliest(target, passes, node, depth) for depth in range(5))
        losses.append(1 - rate / best)
    assert sum(losses) / len(losses) < 0.01
    assert max(losses) < 0.2


def rate_of_likeliest(target: TabularTarget, passes: float, node: float, levels: int) -> float:
    """Returns the best rate of up to six of the likeliest nodes of some levels."""
    paths = (path for n in range(1, levels + 1) for path in itertools.product(range(2), repeat=n))
    values = sorted((value(target, path) for path in paths), reverse=True)[:6]
    tokens = itertools.accumulate(values, initial=1.0)
    return max(total / (1 + passes * levels + node * n) for n, total in enumerate(tokens))


@final
class Grows(Drafter):
    """Drafts in a shape from a table that is near the target's."""

    def __init__(self, form: str, target: TabularTarget) -> None:
        self.shape, self.target = parse_tree(form), target
        self.other = TabularTarget(8, seed=9, sharpness=1)
        self.kind = self.shape.kind

    def propose(self, context: Context, pen: Pen) -> None:
        def logits(path: Sequence[int]) -> torch.Tensor:
            text = [*context.tokens, *path]
            return self.target.logits(text) + self.other.logits(text)

        self.shape.grow(pen, one_by_one(logits))


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(temperature=1.0)])
@pytest.mark.parametrize("budget", [1, 5, 9])
def test_a_replayed_tree_has_the_shape_of_the_dynamic_tree(sampling: Sampling, budget: int) -> None:
    target, shapes = TabularTarget(8), list[list[Path]]()
    for form in ("dynamic:3", "replay:3"):
        pen = new_pen(sampling=sampling, vocab_size=8, gamma=3, budget=budget)
        Grows(form, target).propose(Context(Tokens([0, 1])), pen)
        draft = pen.sheet.finish()
        ranks: dict[int, Path] = {-1: ()}
        for node, parent in enumerate(draft.parents):
            ranks[node] = (*ranks[parent], draft.children(parent).index(node))
        shapes.append(sorted(ranks.values()))
        assert violation(draft, Grows(form, target).kind) is None
    assert shapes[0] == shapes[1]


def test_draws_into_a_tree_take_fewer_rounds_than_its_points() -> None:
    rounds = dict[str, int]()
    for form, rule in (("dynamic:3", Candidates()), ("replay:3", Traversal())):
        target = TabularTarget(8, sharpness=1)
        sampling = Sampling(temperature=1.0, seed=1)
        options = {"gamma": 3, "budget": 6, "max_new_tokens": 400, "sampling": sampling}
        rounds[form] = len(list(decode(target, Grows(form, target), rule, [0, 1], **options)))
    assert rounds["replay:3"] < 0.95 * rounds["dynamic:3"]
