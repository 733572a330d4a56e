"""Cases: drafts of many shapes that a rule is run on, enumerated once for all rules."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import final

import torch

from outrider.contract.draft import Draft
from outrider.contract.drafter import Drafter
from outrider.contract.sampling import Sampling
from outrider.contract.verifier import Verifier
from outrider.targets.tabular import TabularTarget
from outrider.testing.conditionals import Conditionals, Distribution
from outrider.testing.exact import Setup, output_distribution, possible_drafts, round_distribution
from outrider.testing.table_drafters import (
    CHAINS,
    TREES,
    ChainDrafter,
    SeparateDrafter,
    Shape,
    TreeDrafter,
)
from outrider.testing.tiny_targets import SAMPLED
from outrider.verifiers.sample_match import SampleMatch

NARROW = Sampling(temperature=0.7, top_k=2)
SETTINGS = (SAMPLED, NARROW, Sampling(temperature=1.3, top_p=0.8))
VOCAB = 3

WIDE: dict[str, tuple[tuple[int, int], ...]] = {
    "paths": ((3, 3), (4, 3), (2, 5)),
    "iid": ((3, 3), (4, 3), (2, 5), (2, 7)),
    "distinct": ((3, 3), (4, 4), (3, 5), (2, 7)),
    "deterministic": ((3, 3), (4, 4), (3, 5), (2, 7)),
}
"""By the kind of siblings, how many there are, and the size of the vocabulary."""
SURE = ((1.0, 1e-17, 2e-17, 3e-17), (0.25, 0.75, 1e-17, 2e-17))
"""Distributions of drafts in which one token or two are all but certain, to the last bit."""
RAGGED: tuple[Shape, ...] = (
    {(): 2, (0,): 1, (0, 0): 2},
    {(): 2, (1,): 2, (1, 0): 1},
    {(): 1, (0,): 3},
)
"""Trees with branches of several lengths."""
DEPTHS = (5, 7, 9)
"""How deep drafts are of which only the last tokens are drawn."""


@final
@dataclass(frozen=True)
class Case:
    """A drafter for a tiny target, and the setting to run it in.

    name: says what it drafts.
    """

    name: str
    target: TabularTarget
    drafter: Drafter
    gamma: int
    sampling: Sampling = SAMPLED
    budget: int = 6
    prompt: Sequence[int] = (0, 1)

    def __str__(self) -> str:
        return f"{self.name}, gamma {self.gamma}, {self.sampling}"

    def setup(self, verifier: Verifier) -> Setup:
        """Returns the setup with one rule."""
        return Setup(
            self.target,
            self.drafter,
            verifier,
            self.prompt,
            gamma=self.gamma,
            sampling=self.sampling,
            budget=max(self.budget, self.gamma),
        )

    def distribution(self, verifier: Verifier) -> Distribution:
        """Returns the distribution of the next tokens, as far as a round may go on."""
        setup = self.setup(verifier)
        if verifier.coupled:
            return output_distribution(setup, whole=False)
        return round_distribution(setup, self._copies(), self._conditionals, False)

    @cached_property
    def _drafts(self) -> list[tuple[float, Draft]]:
        return list(possible_drafts(self.setup(SampleMatch())))

    @cached_property
    def _conditionals(self) -> Conditionals:
        return Conditionals(self.target, self.prompt)

    def _copies(self) -> Iterator[tuple[float, Draft]]:
        # A rule that writes into a draft must not spoil it for the rules after it.
        for p, draft in self._drafts:
            probs = tuple(None if p is None else p.clone() for p in draft.probs)
            yield p, replace(draft, probs=probs)


def cases(verifier: Verifier, *, thorough: bool = False) -> Iterator[Case]:
    """Yields cases of every kind of draft that a rule takes.

    thorough: larger ones, whose enumeration may take minutes.
    """
    # The noise that coupled races share is enumerated by its volumes: dear for many tokens.
    most = 3 if verifier.coupled else 7
    for kind in ("chain", *TREES):
        if kind in verifier.takes:
            yield from (case for case in _cases(kind, thorough) if case.target.vocab_size <= most)


@cache
def _cases(kind: str, thorough: bool) -> tuple[Case, ...]:
    if kind == "chain":
        return tuple(_long_chains() if thorough else _chains())
    return tuple(_large_trees(kind) if thorough else _trees(kind))


def _chains() -> Iterator[Case]:
    target = TabularTarget(VOCAB)
    for name in CHAINS:
        drafter = ChainDrafter(target, name)
        for gamma, sampling in itertools.product((1, 2), SETTINGS):
            yield Case(f"{name} draft", target, drafter, gamma, sampling)
        yield Case(f"{name} draft", target, drafter, 3)
    small = TabularTarget(2)
    for name, gamma in (("drawn", 6), ("short", 8)):
        yield Case(f"{name} draft of {gamma} tokens", small, ChainDrafter(small, name), gamma)
    for gamma, sampling in itertools.product(DEPTHS, SETTINGS[:2]):
        yield Case("late draft", target, ChainDrafter(target, "late"), gamma, sampling)
    for vocab in (5, 7):
        target = TabularTarget(vocab)
        yield Case(f"drawn draft of {vocab} tokens", target, ChainDrafter(target, "drawn"), 1)
    target = tied_target(VOCAB)
    for name in ("drawn", "written", "exact"):
        yield Case(f"{name} draft with ties", target, ChainDrafter(target, name, tied=True), 2)


def _trees(kind: str) -> Iterator[Case]:
    target = TabularTarget(VOCAB)
    yield from _binary(kind, target)
    for siblings, vocab in WIDE[kind]:
        other = TabularTarget(vocab)
        drafter = TreeDrafter(other, kind, shape={(): siblings})
        yield Case(f"{siblings} {kind} siblings of {vocab} tokens", other, drafter, 1)
    for siblings in (2, 3):
        drafter = TreeDrafter(target, kind, shape={(): siblings}, tied=True)
        yield Case(f"{siblings} {kind} siblings with ties", tied_target(VOCAB), drafter, 1)
    if kind == "iid":
        drafter = TreeDrafter(target, kind, seed=8, shape={(): 4})  # the fourth decides, too
        yield Case("4 iid siblings of another table", target, drafter, 1)
        other = TabularTarget(4)
        drafter = TreeDrafter(other, kind, seed=8, shape={(): 3})
        yield Case("3 iid siblings of another table of 4 tokens", other, drafter, 1)
    if kind == "distinct":
        yield from _unlike_siblings()
    if kind == "paths":
        small = TabularTarget(2)
        for paths, gamma in ((2, 3), (3, 2)):
            drafter = TreeDrafter(small, kind, shape={(): paths})
            yield Case(f"{paths} paths of 2 tokens", small, drafter, gamma)
    other = TabularTarget(2) if kind == "iid" else target  # of two distinct, one is no choice
    for shape in RAGGED if kind != "paths" else ():
        if max(shape.values()) <= other.vocab_size:
            tree, depth = TreeDrafter(other, kind, shape=shape), 1 + max(map(len, shape))
            yield Case(f"ragged {kind} tree", other, tree, depth, budget=7)
    depths = DEPTHS[:1] if kind == "paths" else DEPTHS[1:]  # each path doubles the verdicts
    for depth, sampling in itertools.product(depths, SETTINGS[:2]):
        branches = 0 if kind == "paths" else depth - 1
        shape = {(0,) * above: 1 + (above == branches) for above in range(depth)}
        tree = TreeDrafter(target, kind, shape=shape, late=True)
        yield Case(f"late {kind} tree", target, tree, depth, sampling, budget=2 * depth)


def _binary(kind: str, target: TabularTarget) -> Iterator[Case]:
    drafter = TreeDrafter(target, kind)
    for gamma, sampling in itertools.product((1, 2), SETTINGS):
        if (kind, gamma, sampling) != ("iid", 2, SAMPLED):
            yield Case(f"{kind} tree", target, drafter, gamma, sampling)
    if kind == "iid":  # both halves of that tree, whose 729 drafts would take most of the time
        for rank in range(2):
            half = TreeDrafter(target, kind, shape={(): 2, (rank,): 2})
            yield Case(f"{kind} siblings below sibling {rank}", target, half, 2)


def _unlike_siblings() -> Iterator[Case]:
    target = TabularTarget(4)
    yield Case("2 siblings of separate calls", target, SeparateDrafter(target, 2), 1)
    for probs in SURE:
        table = TabularTarget.of(torch.tensor([probs], dtype=torch.float64), order=0)
        drafter = TreeDrafter(target, "distinct", shape={(): 3}, table=table)
        yield Case(f"3 distinct siblings of {probs}", target, drafter, 1)


def _long_chains() -> Iterator[Case]:
    for vocab, gamma in ((2, 6), (3, 4), (5, 3), (7, 2)):
        target = TabularTarget(vocab)
        for name in CHAINS:
            drafter = ChainDrafter(target, name)
            for sampling in SETTINGS:
                yield Case(f"{name} draft of {vocab} tokens", target, drafter, gamma, sampling)


def _large_trees(kind: str) -> Iterator[Case]:
    shapes: tuple[Shape, ...] = ({(): 3}, {(): 4}, {(): 2, (0,): 2}, {(): 2, (1,): 2}, *RAGGED)
    for vocab in (3, 5):
        target = TabularTarget(vocab)
        for shape, sampling in itertools.product(shapes, SETTINGS):
            if kind != "paths" or len(shape) == 1:
                drafter, gamma = TreeDrafter(target, kind, shape=shape), 1 + max(map(len, shape))
                yield Case(f"{kind} tree of {vocab} tokens", target, drafter, gamma, sampling)


def tied_target(vocab: int) -> TabularTarget:
    """Returns a target whose logits are whole numbers, so that many of them are equal."""
    target = TabularTarget(vocab, sharpness=1.0)
    target.table = torch.round(target.table)
    return target
