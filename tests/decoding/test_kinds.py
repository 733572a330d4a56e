"""A draft is of the kinds that the pen's record shows, and of no other."""

from collections.abc import Callable

import pytest
import torch
from tiny.pens import new_pen

from outrider import Chance, Draft, Pen, Sampling
from outrider.contract.draft import KINDS, ROOT
from outrider.decoding.kinds import violation
from outrider.testing.enumerated import EnumeratedChance

SAMPLED = Sampling(temperature=1.0)
A, B = torch.tensor([[0.0, 1.0, 2.0, -1.0], [1.0, -1.0, 0.5, 0.0]], dtype=torch.float64)
EVERY = set(KINDS)


def chain(pen: Pen) -> None:
    pen.draw(A)
    pen.write(2)


def written_chain(pen: Pen) -> None:
    pen.write(1)
    pen.write(2)


def distinct(pen: Pen) -> None:
    pen.branch(A, 2)
    pen.branch(B, 2, after=0)


def iid(pen: Pen) -> None:
    pen.branch(A, 2, replacement=True)
    pen.branch(B, 2, after=0, replacement=True)


def paths(pen: Pen) -> None:
    for node in pen.branch(A, 2, replacement=True):
        pen.draw(B, after=node)


def two_distributions(pen: Pen) -> None:
    pen.draw(A, after=ROOT)
    pen.draw(B, after=ROOT)


def one_more_call(pen: Pen) -> None:
    pen.draw(A, after=ROOT)
    pen.draw(A, after=ROOT)


def chosen(pen: Pen) -> None:
    for token in (1, 2):
        pen.write(token, after=ROOT)
        pen.write(token + 1)


def chosen_twice(pen: Pen) -> None:
    pen.write(1, after=ROOT)
    pen.write(1, after=ROOT)


def likeliest_first(pen: Pen) -> None:
    """The likeliest token, and one drawn from the others."""
    pen.write(2, after=ROOT)
    rest = A.clone()
    rest[2] = float("-inf")
    pen.draw(rest, after=ROOT)


def drafts(write: Callable[[Pen], None], sampling: Sampling = SAMPLED) -> list[Draft]:
    """Returns the drafts of all outcomes."""

    def play(chance: Chance) -> Draft:
        pen = new_pen(chance, sampling=sampling, gamma=2, budget=9)
        write(pen)
        return pen.sheet.finish()

    return [draft for _, draft in EnumeratedChance.outcomes(play)]


@pytest.mark.parametrize(
    ("write", "kinds", "temperature"),
    [
        (chain, EVERY - {"deterministic"}, 1),
        (written_chain, EVERY, 1),
        (distinct, {"distinct"}, 1),
        (distinct, EVERY, 0),  # one token has all the probability, so there are no siblings
        (iid, {"iid"}, 1),
        (iid, {"iid", "deterministic"}, 0),
        (paths, {"iid", "paths"}, 1),
        (paths, {"iid", "paths", "deterministic"}, 0),
        (two_distributions, set(), 1),
        (two_distributions, {"deterministic", "distinct"}, 0),
        (one_more_call, set(), 1),
        (chosen, {"distinct", "deterministic"}, 1),
        (chosen_twice, {"deterministic"}, 1),
        (likeliest_first, {"distinct"}, 1),
    ],
)
def test_the_kinds_of_a_draft(
    write: Callable[[Pen], None], kinds: set[str], temperature: float
) -> None:
    for draft in drafts(write, Sampling(temperature=temperature)):
        assert {kind for kind in KINDS if violation(draft, kind) is None} == kinds


@pytest.mark.parametrize("second", ["drawn", "written"])
def test_paths_that_share_their_start_go_on_with_one_distribution(second: str) -> None:
    def unequal(pen: Pen) -> None:
        first, other = pen.branch(A, 2, replacement=True)
        pen.draw(A, after=first)
        if second == "drawn":
            pen.draw(B, after=other)
        else:
            pen.write(0, after=other)

    for draft in drafts(unequal):
        same_start = draft.tokens[0] == draft.tokens[1]
        assert (violation(draft, "paths") is not None) == same_start
        if same_start:
            reason = "tokens 2 and 3 follow the same text with different distributions"
            assert violation(draft, "paths") == reason


def test_paths_may_differ_by_the_rounding_of_a_network() -> None:
    def rounded(pen: Pen) -> None:
        first, other = pen.branch(torch.tensor([0.0, -99, -99, -99]), 2, replacement=True)
        pen.draw(A, after=first)
        pen.draw(A * 1.01, after=other)

    draft = max(drafts(rounded), key=lambda draft: draft.tokens[:2] == (0, 0))
    assert violation(draft, "paths") is None
    assert violation(draft, "paths", 1e-6) is not None


def test_without_the_pens_record_siblings_are_not_independent() -> None:
    probs = A.softmax(-1)
    draft = Draft((0, 1), (ROOT, ROOT), (probs, probs))
    assert violation(draft, "iid") == "tokens 0 and 1 come from separate calls of the pen"
