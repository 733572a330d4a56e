"""Checks of a constraint: each takes a callable that makes one, and raises AssertionError."""

from collections import defaultdict
from collections.abc import Callable, Iterator

import torch

from outrider.contract.chance import Chance
from outrider.contract.constraint import Constraint
from outrider.contract.draft import Draft
from outrider.contract.drafter import Drafter
from outrider.contract.round import Round
from outrider.contract.verifier import Verifier
from outrider.decoding.decode import decode
from outrider.targets.tabular import TabularTarget
from outrider.testing.conditionals import Distribution
from outrider.testing.enumerated import EnumeratedChance
from outrider.testing.exact import assert_equal
from outrider.testing.table_drafters import ChainDrafter, TreeDrafter
from outrider.testing.tiny_targets import SAMPLED, VOCAB_SIZE, letters
from outrider.verifiers.token import Token
from outrider.verifiers.traversal import Traversal

Make = Callable[[], Constraint]

PROMPT = (0, 1)

LONGEST = 12
"""The most tokens of a text that a constraint is asked about."""

LENGTH = 3
"""How many tokens the texts have whose distribution is enumerated."""


def check_masks_are_well_formed(make: Make) -> None:
    """Logits keep their shape and type, and at least one token stays possible; the given ones are
    left alone.
    """
    for ids, constraint in _texts(make):
        given = torch.randn(VOCAB_SIZE, generator=torch.Generator().manual_seed(len(ids)))
        before = given.clone()
        allowed = constraint.logits(ids, given)
        assert torch.equal(given, before), f"after {ids} it changed the logits that it was given"
        same = allowed.shape == given.shape and allowed.dtype == given.dtype
        assert same, f"after {ids} it gave {allowed.dtype} of shape {tuple(allowed.shape)}"
        assert not (allowed.isnan() | (allowed == torch.inf)).any(), f"after {ids}: NaN or infinity"
        assert allowed.isfinite().any(), f"after {ids} it allows no token"


def check_answers_depend_on_the_ids_alone(make: Make) -> None:
    """The logits after a text are the same when it is asked again, after others in between."""
    logits = torch.zeros(VOCAB_SIZE)
    for ids, constraint in _texts(make):
        first = constraint.logits(ids, logits)
        for token in first.isfinite().nonzero().flatten().tolist():
            constraint.logits([*ids, token], logits)
        second = constraint.logits(ids, logits)
        assert torch.equal(second, first), f"after {ids} it changed its mind"


def check_forced_tokens_are_possible(make: Make) -> None:
    """A token that it forces is one that it allows."""
    logits = torch.zeros(VOCAB_SIZE)
    for ids, constraint in _texts(make):
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


def constrained_texts(
    target: TabularTarget, drafter: Drafter, rule: Verifier, constraint: Constraint
) -> Iterator[list[Round]]:
    """Yields the rounds of every outcome of the loop under a constraint.

    Raises AssertionError in the end unless texts have the target's constrained distribution.
    """

    def play(chance: Chance) -> list[Round]:
        return list(
            decode(
                target, drafter, rule, PROMPT, gamma=2, budget=3, sampling=SAMPLED, chance=chance,
                constraint=constraint, max_new_tokens=LENGTH,
            )
        )  # fmt: skip

    probs: Distribution = defaultdict(float)
    for p, rounds in EnumeratedChance.outcomes(play):
        probs[tuple(token for round in rounds for token in round.tokens)] += p
        yield rounds
    constraint = constraint.begin(target, PROMPT)
    exact: Distribution = defaultdict(float)
    texts: Distribution = {(): 1.0}  # that go on
    for length in range(1, LENGTH + 1):
        before, texts = texts, {}
        for text, weight in before.items():
            ids = [*PROMPT, *text]
            logits = constraint.logits(ids, target.open(ids).score(Draft())[0])
            for token, p in enumerate(SAMPLED.probs(logits).tolist()):
                if p > 0:
                    ends = token in target.eos or constraint.ends([*ids, token])
                    found = exact if ends or length == LENGTH else texts
                    found[*text, token] = weight * p
    assert_equal(probs, exact, "under the constraint")


def _target() -> TabularTarget:
    """Returns a target with a table of its own, and a tokenizer for grammars."""
    target = TabularTarget(VOCAB_SIZE)
    target.tokenizer = letters(VOCAB_SIZE)
    return target


def _texts(make: Make) -> Iterator[tuple[list[int], Constraint]]:
    """Yields the beginnings of two texts that a constraint allows, with the constraint of each."""
    target = _target()
    for pick in (0, -1):
        ids = list(PROMPT)
        constraint = make().begin(target, ids)
        for _ in range(LONGEST):
            yield list(ids), constraint
            allowed = constraint.logits(ids, torch.zeros(VOCAB_SIZE)).isfinite()
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
