"""The loop that all texts rest on: what it writes under a constraint, and what rounds record."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any, final

import torch

from outrider.contract.chance import Chance
from outrider.contract.constraint import AllOf, Constraint
from outrider.contract.draft import ROOT, Draft
from outrider.contract.drafter import Drafter
from outrider.contract.round import Round
from outrider.contract.target import Target
from outrider.contract.verifier import Verifier
from outrider.decoding.decode import decode
from outrider.targets.tabular import TabularTarget
from outrider.testing.enumerated import EnumeratedChance
from outrider.testing.exact import Distribution, assert_equal
from outrider.testing.table_drafters import ChainDrafter, TreeDrafter
from outrider.testing.tiny_targets import SAMPLED
from outrider.verifiers.token import Token
from outrider.verifiers.traversal import Traversal

PROMPT = (0, 1)
LENGTH, LISTED = 3, 2
"""Of a text, and of the likeliest tokens that are listed with each log-probability."""


@final
class Wary(Constraint):
    """Makes a token less likely with each time that it was written, and ends a text with 2, 1."""

    def logits(self, ids: Sequence[int], logits: Any) -> Any:
        return logits - torch.tensor([ids.count(token) for token in range(len(logits))])

    def ends(self, ids: Sequence[int]) -> bool:
        return list(ids[-2:]) == [2, 1]


@final
class NoRepeats(Constraint):
    """Allows no token twice in a row, in drafts either."""

    def logits(self, ids: Sequence[int], logits: Any) -> Any:
        return logits.index_fill(0, torch.tensor(ids[-1:]), -torch.inf)

    def steering(self) -> Constraint:
        return self


def check_rounds_are_what_was_written(_: object) -> None:
    """Under constraints that change logits, forbid tokens, steer drafts and end texts, a text has
    the target's constrained distribution, over all outcomes of the loop. Each round records its
    tokens, their origins and counts, and the target's own log-probabilities.
    """
    all_as_written()


@cache
def all_as_written() -> None:
    """Raises AssertionError unless they are; it looks once in a process."""
    target = TabularTarget(4)
    target.eos = frozenset({3})
    parts: tuple[tuple[Drafter, Verifier], ...] = (
        (ChainDrafter(target, "mixed"), Token()),
        (TreeDrafter(target, "distinct"), Traversal()),
    )
    for drafter, rule in parts:
        for rounds in constrained_texts(target, drafter, rule, AllOf(Wary(), NoRepeats())):
            _assert_recorded(target, rounds)
            if drafter.trees:  # the other one writes tokens that no constraint steers
                _assert_steered(rounds)


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
                constraint=constraint, max_new_tokens=LENGTH, logprobs=LISTED,
            )
        )  # fmt: skip

    probs: Distribution = defaultdict(float)
    for p, rounds in EnumeratedChance.outcomes(play):
        probs[tuple(token for round in rounds for token in round.tokens)] += p
        yield rounds
    exact = _constrained(target, constraint.begin(target, PROMPT))
    assert_equal(probs, defaultdict(float, exact), "under the constraint")


def _constrained(target: Target, constraint: Constraint) -> Distribution:
    """Returns the probability of each text that ends, or has `LENGTH` tokens."""
    texts: Distribution = {(): 1.0}
    ended: Distribution = {}
    for _ in range(LENGTH):
        before, texts = texts, {}
        for text, weight in before.items():
            ids = [*PROMPT, *text]
            logits = constraint.logits(ids, target.open(ids).score(Draft())[0])
            for token, p in enumerate(SAMPLED.probs(logits).tolist()):
                if p > 0:
                    ends = token in target.eos or constraint.ends([*ids, token])
                    (ended if ends else texts)[*text, token] = weight * p
    return texts | ended


def _assert_steered(rounds: list[Round]) -> None:
    """Raises AssertionError if a draft has a token twice in a row."""
    before = PROMPT[-1]
    for round in rounds:
        for token, parent in zip(round.draft, round.parents, strict=True):
            last = before if parent == ROOT else round.draft[parent]
            assert token != last, f"drafts what it forbids: {token} after {last} ({round})"
        before = round.tokens[-1]


def _assert_recorded(target: TabularTarget, rounds: list[Round]) -> None:
    """Raises AssertionError unless rounds say what was written."""
    ids = list(PROMPT)
    for round in rounds:
        before, leaf = len(ids), round.path[-1] if round.path else ROOT
        ids += round.tokens
        accepted, rejected = len(round.path), leaf in round.parents
        ended = len(round.tokens) == accepted  # within the draft, so that the target adds no token
        last = () if ended else ("recovered" if rejected else "bonus",)
        counts = (accepted,) * 3 if ended else (len(round.draft), accepted + rejected, accepted)
        stops = {
            "eos": ids[-1] in target.eos,
            "max_new_tokens": len(ids) == len(PROMPT) + LENGTH,
            "constraint": Wary().ends(ids),
        }
        facts: dict[str, tuple[object, object]] = {
            "path": (tuple(round.parents[node] for node in round.path), (ROOT, *round.path)[:-1]),
            "tokens": (round.tokens[:accepted], tuple(round.draft[node] for node in round.path)),
            "origins": (round.origins, ("accepted",) * accepted + last),
            "counts": ((round.drafted, round.tested, round.accepted), counts),
            "stop": (round.stop, next((name for name, holds in stops.items() if holds), None)),
            "logprobs": (
                [_rounded(own.logprob, own.rank, own.top) for own in round.logprobs],
                [_logprob(target, ids[:end], ids[end]) for end in range(before, len(ids))],
            ),
        }
        for name, (said, expected) in facts.items():
            assert said == expected, f"a round says {name}={said}: expected {expected} ({round})"
    assert any(round.draft for round in rounds) or len(ids) < len(PROMPT) + 2, "nothing is drafted"
    assert [round.stop is None for round in rounds] == [True] * (len(rounds) - 1) + [False]


def _logprob(target: TabularTarget, ids: Sequence[int], token: int) -> object:
    row = target.logits(ids).log_softmax(-1).tolist()
    order = sorted(range(len(row)), key=lambda other: -row[other])
    top = [(other, row[other]) for other in order[:LISTED]]
    return _rounded(row[token], order.index(token) + 1, top)


def _rounded(logprob: float, rank: int, top: Iterable[tuple[int, float]]) -> object:
    return round(logprob, 9), rank, [(token, round(value, 9)) for token, value in top]


CHECKS = (check_rounds_are_what_was_written,)
