"""Checks of a constraint: each takes a callable that makes one, and raises AssertionError."""

from collections.abc import Callable, Iterator

import torch

from outrider.contract.constraint import Constraint
from outrider.contract.target import Target
from outrider.targets.tabular import TabularTarget
from outrider.testing.loop import PROMPT, constrained_texts
from outrider.testing.table_drafters import ChainDrafter, TreeDrafter
from outrider.testing.tiny_targets import VOCAB_SIZE, letters
from outrider.verifiers.token import Token
from outrider.verifiers.traversal import Traversal

Make = Callable[[], Constraint]

LENGTH = 12
"""The most tokens of a text that a constraint is asked about."""


def check_masks_are_well_formed(make: Make) -> None:
    """Logits keep their shape and type, and at least one token stays possible; the given ones are
    left alone.
    """
    target = _target()
    for ids, constraint in _texts(make, target):
        given = torch.randn(target.vocab_size, generator=torch.Generator().manual_seed(len(ids)))
        before = given.clone()
        allowed = constraint.logits(ids, given)
        assert torch.equal(given, before), f"after {ids} it changed the logits that it was given"
        same = allowed.shape == given.shape and allowed.dtype == given.dtype
        assert same, f"after {ids} it gave {allowed.dtype} of shape {tuple(allowed.shape)}"
        assert not (allowed.isnan() | (allowed == torch.inf)).any(), f"after {ids}: NaN or infinity"
        assert allowed.isfinite().any(), f"after {ids} it allows no token"


def check_answers_depend_on_the_ids_alone(make: Make) -> None:
    """The logits after a text are the same when it is asked again, after others in between."""
    target = _target()
    logits = torch.zeros(target.vocab_size)
    for ids, constraint in _texts(make, target):
        first = constraint.logits(ids, logits)
        for token in range(target.vocab_size):
            if first[token].isfinite():
                constraint.logits([*ids, token], logits)
        assert torch.equal(constraint.logits(ids, logits), first), (
            f"after {ids} it changed its mind"
        )


def check_forced_tokens_are_possible(make: Make) -> None:
    """A token that it forces is one that it allows."""
    target = _target()
    logits = torch.zeros(target.vocab_size)
    for ids, constraint in _texts(make, target):
        text = list(ids)
        for token in constraint.forced(ids):
            assert constraint.logits(text, logits)[token].isfinite(), f"after {text} forced {token}"
            text.append(token)


def check_texts_have_the_constrained_distribution(make: Make) -> None:
    """Over all outcomes of several rounds, with drafts of chains and of trees, a text has the
    target's distribution under the constraint, and ends where it says so.
    """
    target = _target()
    list(constrained_texts(target, ChainDrafter(target, "mixed"), Token(), make()))
    list(constrained_texts(target, TreeDrafter(target, "distinct"), Traversal(), make()))


def _target() -> TabularTarget:
    """Returns a target with a table of its own, and a tokenizer for grammars."""
    target = TabularTarget(VOCAB_SIZE)
    target.tokenizer = letters(VOCAB_SIZE)
    return target


def _texts(make: Make, target: Target) -> Iterator[tuple[list[int], Constraint]]:
    """Yields the beginnings of two texts that a constraint allows, with the constraint of each."""
    for pick in (0, -1):
        ids = list(PROMPT)
        constraint = make().begin(target, ids)
        for _ in range(LENGTH):
            yield list(ids), constraint
            allowed = constraint.logits(ids, torch.zeros(target.vocab_size)).isfinite()
            possible = allowed.nonzero().flatten().tolist()
            assert possible, f"after {ids} it allows no token"
            ids.append(possible[pick])
            if constraint.ends(ids):
                break


CHECKS = (
    check_masks_are_well_formed,
    check_answers_depend_on_the_ids_alone,
    check_forced_tokens_are_possible,
    check_texts_have_the_constrained_distribution,
)
