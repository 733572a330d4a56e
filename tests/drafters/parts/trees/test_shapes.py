"""Shapes grow into the trees that they describe, within depth and budget."""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from tiny.pens import new_pen

from outrider import ConfigError, Context, Draft, Drafter, Pen, Sampling, Tokens
from outrider.contract.chance import SampledChance
from outrider.contract.draft import ROOT
from outrider.decoding.kinds import violation
from outrider.drafters.parts.trees.shapes import Path, Static, best_widths, one_by_one
from outrider.drafters.parts.trees.tree_forms import parse_tree
from outrider.targets.tabular import TabularTarget
from outrider.testing.tiny_targets import draft_after

TARGET = TabularTarget(6)
NEXT_LOGITS = TARGET.logits
SAMPLED = Sampling(temperature=1.0)


class Grows(Drafter):
    def __init__(self, form: Any) -> None:
        self.shape = parse_tree(form)
        self.kind = self.shape.kind

    def propose(self, context: Context, pen: Pen) -> None:
        text = context.tokens[:]
        self.shape.grow(pen, one_by_one(lambda path: NEXT_LOGITS([*text, *path])))


def grown(form: Any, gamma: int = 4, budget: int = 64, more: Any = None, seed: int = 0) -> Draft:
    drafter = Grows(form)
    pen = new_pen(SampledChance.seeded(seed), vocab_size=6, gamma=gamma, budget=budget, more=more)
    drafter.propose(Context(Tokens([0, 1])), pen)
    draft = pen.sheet.finish()
    assert violation(draft, drafter.kind) is None
    return draft


def widths(draft: Draft) -> list[int]:
    """Returns how many nodes there are at each depth."""
    depths = [len(draft.path(node)) for node in range(len(draft))]
    return [depths.count(depth) for depth in range(1, max(depths, default=0) + 1)]


@pytest.mark.parametrize(
    ("form", "expected", "kind"),
    [
        (None, [1, 1, 1, 1], "chain"),
        ("3x2x1", [3, 6, 6], "distinct"),
        ("4", [4], "distinct"),
        ("iid:2x2", [2, 4], "iid"),
        ("paths:3", [3, 3, 3, 3], "paths"),
        ("top:2x3", [2, 6], "deterministic"),
        ([[0], [1], [0, 0], [0, 1], [0, 0, 0]], [2, 2, 1], "distinct"),
        ("top:[[0],[1],[1,0]]", [2, 1], "deterministic"),
    ],
)
def test_a_form_is_its_tree(form: Any, expected: list[int], kind: str) -> None:
    assert parse_tree(form).kind == kind
    assert widths(grown(form)) == expected


@pytest.mark.parametrize("form", [None, "3x3x3", "iid:3x3x3", "paths:5", "top:4x4", "dynamic:4",
                                  "cost:4,.1,.05", "sequoia:.5,.2,.1"])  # fmt: skip
def test_depth_and_budget_are_kept(form: Any) -> None:
    for gamma, budget in itertools.product((0, 1, 2, 3), (1, 2, 3, 7, 20)):
        draft = grown(form, gamma, budget)
        assert len(draft) <= budget
        assert len(widths(draft)) <= gamma


@pytest.mark.parametrize("form", ["3x3", "paths:3", "top:3x3", "dynamic:3", None])
def test_a_policy_is_asked_after_each_submission(form: Any) -> None:
    for most in (1, 2, 5):
        draft = grown(form, more=lambda draft, most=most: len(draft) < most)
        assert len(draft) <= most + 2  # siblings are submitted together


def test_a_dynamic_tree_holds_the_likeliest_paths() -> None:
    """With a width that expands everything, against all paths there are."""
    for budget, gamma in ((1, 2), (5, 2), (9, 3), (20, 3)):
        draft = grown("dynamic:300", gamma, budget)
        values = {}
        for depth in range(1, gamma + 1):
            for path in itertools.product(range(6), repeat=depth):
                values[path] = sum(
                    float(NEXT_LOGITS([0, 1, *path[:i]]).log_softmax(-1)[token])
                    for i, token in enumerate(path)
                )
        best = sorted(values, key=lambda path: -values[path])[:budget]
        chosen = {
            tuple(draft.tokens[step] for step in draft.path(node)) for node in range(len(draft))
        }
        assert chosen == set(best)


def test_a_dynamic_tree_continues_from_the_likeliest_of_a_depth() -> None:
    draft = grown("dynamic:2", gamma=3)
    layer: list[tuple[int, ...]] = [()]
    expected = []
    for _ in range(3):
        values = {
            (*path, token): sum(
                float(NEXT_LOGITS([0, 1, *path[:i]]).log_softmax(-1)[step])
                for i, step in enumerate((*path, token))
            )
            for path in layer
            for token in NEXT_LOGITS([0, 1, *path]).topk(2).indices.tolist()
        }
        expected += values
        layer = sorted(values, key=lambda path, values=values: -values[path])[:2]  # type: ignore[misc]
    paths = [tuple(draft.tokens[step] for step in draft.path(node)) for node in range(len(draft))]
    assert sorted(paths) == sorted(expected)


def expected_tokens(shape: dict[Path, int], acceptance: Sequence[float]) -> float:
    """Returns the mean number of tokens that a shape has accepted (Sequoia, equation 1)."""
    return sum(
        math.prod(acceptance[step] for step in (*path, rank))
        for path, width in shape.items()
        for rank in range(width)
    )


def every_shape(budget: int, children: int, depth: int) -> set[frozenset[tuple[int, ...]]]:
    """Returns every tree of up to `budget` nodes, as a set of paths."""
    shapes = {frozenset[tuple[int, ...]]()}
    for _ in range(budget):
        larger = set(shapes)
        for shape in shapes:
            for parent in [(), *shape]:
                rank = sum(path[:-1] == parent for path in shape)
                if rank < children and len(parent) < depth:
                    larger.add(shape | {(*parent, rank)})
        shapes = larger
    return shapes


@pytest.mark.parametrize("rates", [(0.6, 0.2, 0.1), (0.3, 0.3, 0.3), (0.2, 0.6), (0.9,)])
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_sequoias_shape_is_the_best_of_all(rates: tuple[float, ...], depth: int) -> None:
    for budget in (1, 2, 4, 6):
        value = max(
            sum(math.prod(rates[step] for step in path) for path in shape)
            for shape in every_shape(budget, len(rates), depth)
        )
        shape = best_widths(rates, budget, depth)
        assert sum(shape.values()) <= budget
        assert expected_tokens(shape, rates) == pytest.approx(value)


def test_sequoia_grows_its_shape() -> None:
    assert widths(grown("sequoia:.8,.1", gamma=3, budget=4)) == [2, 1, 1]
    assert widths(grown("sequoia:.5,.4", gamma=3, budget=6)) == [2, 4]


@pytest.mark.parametrize(
    "form",
    ["3x", "x", "iid:", "tree:3", "paths:0", "0x2", "top:[[0,0]]", [[0, 0]], [[1]], [], [[]],
     "sequoia:1.5", "sequoia:.6,.6", "dynamic:0", "cost:4", "cost:0,1,1",
     "cost:2,.1,x", 7.5, [["a"]]],
)  # fmt: skip
def test_anything_but_a_shape_is_refused_in_one_line(form: Any) -> None:
    with pytest.raises(ConfigError, match=r"drafter\.tree=") as caught:
        parse_tree(form)
    assert "\n" not in str(caught.value)


def test_distributions_are_asked_for_one_depth_at_a_time() -> None:
    asked: list[list[list[int]]] = []

    def next_logits(paths: Sequence[Sequence[int]]) -> torch.Tensor:
        asked.append([list(path) for path in paths])
        return torch.stack([NEXT_LOGITS([0, 1, *path]) for path in paths])

    pen = new_pen(vocab_size=6, budget=20)
    Static({(): 2, (0,): 2, (1,): 1, (0, 1): 1}, "distinct").grow(pen, next_logits)
    draft = pen.sheet.finish()
    assert asked == [
        [[draft.tokens[step] for step in draft.path(node)] for node in nodes]
        for nodes in ([ROOT], [0, 1], [3])
    ]


def test_siblings_that_are_drawn_greedily_are_one() -> None:
    drafter = Grows("3x3")
    draft = draft_after(drafter, TARGET, [0, 1], 2, sampling=Sampling())
    assert widths(draft) == [1, 1]
    likeliest = Grows("top:3x3")
    draft = draft_after(likeliest, TARGET, [0, 1], 2, sampling=Sampling())
    assert widths(draft) == [3, 5]  # the stage's budget is eight
