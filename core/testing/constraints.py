"""Checks of a constraint: each takes a callable that makes one, and raises AssertionError."""

from collections.abc import Callable, Iterator

import torch

from outrider.contract.constraint import Constraint
from outrider.contract.draft import Draft
from outrider.contract.sampling import likeliest
from outrider.contract.target import Target
from outrider.contract.verifier import Verdict
from outrider.decoding.generation import generate
from outrider.testing.tiny_targets import VOCAB_SIZE, tiny_target

Make = Callable[[], Constraint]

PROMPT = (0, 1)
LENGTH = 12
"""The most tokens of a text that a constraint is asked about."""


def check_masks_are_well_formed(make: Make) -> None:
    """Logits keep their shape and type, and at least one token stays possible; the given ones are
    left alone.
    """
    target = tiny_target(VOCAB_SIZE)
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
    target = tiny_target(VOCAB_SIZE)
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
    target = tiny_target(VOCAB_SIZE)
    logits = torch.zeros(target.vocab_size)
    for ids, constraint in _texts(make, target):
        text = list(ids)
        for token in constraint.forced(ids):
            assert constraint.logits(text, logits)[token].isfinite(), f"after {text} forced {token}"
            text.append(token)


def check_a_greedy_text_is_the_same_with_drafts(make: Make) -> None:
    """The greedy text under the constraint is the same whoever drafts: the likeliest token of those
    that it allows, again and again.
    """
    target = tiny_target(VOCAB_SIZE)
    texts = [
        generate(target, list(PROMPT), name, constraint=make(), max_new_tokens=LENGTH).tokens
        for name in ("none", "bigram", "random")
    ]
    assert texts[0] == texts[1] == texts[2], f"without drafts {texts[0]}, with drafts {texts[1:]}"
    expected = _likeliest_text(make, target)
    assert texts[0] == expected, f"the text is {texts[0]}: it allows {expected}"


def _likeliest_text(make: Make, target: Target) -> list[int]:
    """Returns the greedy text under a constraint, token by token."""
    ids, text = list(PROMPT), list[int]()
    constraint, session = make().begin(target, ids), target.open(ids)
    while len(text) < LENGTH:
        logits = constraint.logits([*ids, *text], session.score(Draft())[0])
        text.append(int(likeliest(logits)))
        session.commit(Verdict((), text[-1]))
        if constraint.ends([*ids, *text]) or text[-1] in target.eos:
            break
    return text


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
    check_a_greedy_text_is_the_same_with_drafts,
)
