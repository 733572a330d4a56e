"""Facts about drafts: what is where in a tree, and of which kinds a draft is seen to be."""

from collections.abc import Callable

import torch

from outrider.contract.chance import Chance, EnumeratedChance
from outrider.contract.draft import KINDS, ROOT, Draft
from outrider.contract.kinds import departure
from outrider.contract.pen import Pen
from outrider.testing.facts import assert_is
from outrider.testing.stage import SAMPLED, VOCAB_SIZE

A, B = torch.tensor([[0.0, 1.0, 2.0, -1.0], [1.0, -1.0, 0.5, 0.0]], dtype=torch.float64)


def assert_trees() -> None:
    """Asserts that a tree has its nodes, paths and distributions where they were written."""
    paths = [(1, 2), (1, 3), (), (1, 2, 0)]
    tree, ends = Draft.of_paths(paths)
    assert_is("the tokens of paths that share a prefix", tree.tokens, (1, 2, 3, 0))
    assert_is("the parents in a tree of paths", tree.parents, (-1, 0, 0, 1))
    assert_is("where the paths end in their tree", ends, [1, 2, ROOT, 3])
    assert_is("the children of a node", tree.children(0), [1, 2])
    assert_is("the path to a node", tree.path(3), (0, 1, 3))
    chains = (tree.is_chain, Draft.chain([1, 2]).is_chain, Draft().is_chain)
    assert_is("whether drafts are chains", chains, (False, True, True))
    q = torch.tensor([0.0, 0.25, 0.75, 0.0], dtype=torch.float64)
    draft = Draft((2, 1), (ROOT, 0), (q, None))
    for node, expected in enumerate((q.tolist(), [0, 1, 0, 0])):
        probs = draft.distribution(node, q).tolist()
        assert_is("the distribution of a drawn token, or of a written one", probs, expected)


def assert_kinds() -> None:
    """Asserts that drafts are of the kinds that the way they are written allows, and no others."""
    for name, write, kinds in (
        ("a chain of a draw and a chosen token", _chain, set(KINDS) - {"deterministic"}),
        ("a chain of chosen tokens", _chosen_chain, set(KINDS)),
        ("siblings without replacement", _distinct, {"distinct"}),
        ("siblings with replacement", _iid, {"iid"}),
        ("paths", _paths, {"iid", "paths"}),
        ("paths that begin alike and go on differently", _unequal_paths, {"iid"}),
        ("siblings of two calls", _two_calls, set()),
        ("siblings of two distributions", _two_distributions, set()),
        ("chosen siblings", _chosen, {"distinct", "deterministic"}),
        ("the same sibling chosen twice", _chosen_twice, {"deterministic"}),
        ("a chosen sibling before one of the others", _likeliest_first, {"distinct"}),
    ):
        for draft in _drafts(write):
            seen = [kind for kind in KINDS if departure(draft, kind) is None]
            assert_is(f"the kinds of {name}", sorted(seen), sorted(kinds))


def _drafts(write: Callable[[Pen], object]) -> list[Draft]:
    """Returns the drafts of all outcomes."""

    def play(chance: Chance) -> Draft:
        pen = Pen(sampling=SAMPLED, chance=chance, vocab_size=VOCAB_SIZE, gamma=2, budget=9)
        write(pen)
        return pen.finish()

    return [draft for _, draft in EnumeratedChance.outcomes(play)]


def _chain(pen: Pen) -> None:
    pen.draw(A)
    pen.write(2)


def _chosen_chain(pen: Pen) -> None:
    pen.write(1)
    pen.write(2)


def _distinct(pen: Pen) -> None:
    pen.branch(A, 2)


def _iid(pen: Pen) -> None:
    first, _ = pen.branch(A, 2, replacement=True)
    pen.branch(B, 2, after=first, replacement=True)


def _paths(pen: Pen) -> None:
    for node in pen.branch(A, 2, replacement=True):
        pen.draw(B, after=node)


def _unequal_paths(pen: Pen) -> None:
    certain = torch.tensor([0.0] + [float("-inf")] * 3)
    for node, logits in zip(pen.branch(certain, 2, replacement=True), (A, B), strict=True):
        pen.draw(logits, after=node)


def _two_calls(pen: Pen) -> None:
    pen.draw(A)
    pen.draw(A, after=ROOT)


def _two_distributions(pen: Pen) -> None:
    pen.draw(A)
    pen.draw(B, after=ROOT)


def _chosen(pen: Pen) -> None:
    for token in (1, 2):
        pen.write(token, after=ROOT)
        pen.write(token + 1)


def _chosen_twice(pen: Pen) -> None:
    for _ in range(2):
        pen.write(1, after=ROOT)


def _likeliest_first(pen: Pen) -> None:
    pen.write(2)
    pen.draw(A.index_fill(0, torch.tensor([2]), float("-inf")), after=ROOT)
