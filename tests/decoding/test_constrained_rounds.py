"""Under constraints, rounds record what was written, over every outcome of the loop."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch

from outrider import Constraint, Drafter, Round, Verifier
from outrider.contract.constraint import AllOf
from outrider.contract.draft import ROOT
from outrider.decoding import rounds
from outrider.targets.tabular import TabularTarget
from outrider.testing.constraints import LENGTH, PROMPT, constrained_texts
from outrider.testing.table_drafters import ChainDrafter, TreeDrafter
from outrider.verifiers.token import Token
from outrider.verifiers.traversal import Traversal


class Wary(Constraint):
    """Makes a token less likely with each time that it was written, and ends a text with 2, 1."""

    def logits(self, ids: Sequence[int], logits: Any) -> Any:
        return logits - torch.tensor([ids.count(token) for token in range(len(logits))])

    def ends(self, ids: Sequence[int]) -> bool:
        return list(ids[-2:]) == [2, 1]


class NoRepeats(Constraint):
    """Allows no token twice in a row, in drafts either."""

    def logits(self, ids: Sequence[int], logits: Any) -> Any:
        return logits.index_fill(0, torch.tensor(ids[-1:]), -torch.inf)

    def steering(self) -> Constraint:
        return self


def check_rounds() -> None:
    """Asserts what rounds record, and that texts have the constrained distribution."""
    target = TabularTarget(4)
    target.eos = frozenset({3})
    parts: tuple[tuple[Drafter, Verifier], ...] = (
        (ChainDrafter(target, "mixed"), Token()),
        (TreeDrafter(target, "distinct"), Traversal()),
    )
    for drafter, rule in parts:
        for text in constrained_texts(target, drafter, rule, AllOf(Wary(), NoRepeats())):
            assert_recorded(target, text)
            if drafter.trees:  # the other one writes tokens that no constraint steers
                assert_steered(text)


def assert_steered(text: list[Round]) -> None:
    before = PROMPT[-1]
    for round in text:
        for token, parent in zip(round.draft, round.parents, strict=True):
            last = before if parent == ROOT else round.draft[parent]
            assert token != last, "drafts what it forbids"
        before = round.tokens[-1]


def assert_recorded(target: TabularTarget, text: list[Round]) -> None:
    ids = list(PROMPT)
    for round in text:
        leaf = round.path[-1] if round.path else ROOT
        ids += round.tokens
        accepted, rejected = len(round.path), leaf in round.parents
        ended = len(round.tokens) == accepted  # within the draft, so that the target adds no token
        after = "recovered" if rejected else "bonus" if round.draft else "plain"
        last = () if ended else (after,)
        counts = (accepted,) * 3 if ended else (len(round.draft), accepted + rejected, accepted)
        stops = {
            "eos": ids[-1] in target.eos,
            "max_new_tokens": len(ids) == len(PROMPT) + LENGTH,
            "constraint": Wary().ends(ids),
        }
        stop = next((name for name, holds in stops.items() if holds), None)
        path = tuple(round.parents[node] for node in round.path)
        assert path == (ROOT, *round.path)[:-1]
        assert round.tokens[:accepted] == tuple(round.draft[node] for node in round.path)
        assert round.origins == ("accepted",) * accepted + last, "origins"
        assert (round.drafted, round.tested, round.accepted) == counts, "counts"
        assert round.stop == stop, "stop"
    assert any(round.draft for round in text) or len(ids) < len(PROMPT) + 2
    assert [round.stop is None for round in text] == [True] * (len(text) - 1) + [False]


def test_rounds_are_those_that_were_written() -> None:
    check_rounds()


FAULTS: dict[str, tuple[str, Callable[[Any], Any], str]] = {
    "the target is not constrained": (
        "constrained",
        lambda _: lambda constraint, ids, draft, logits: logits,
        "under the constraint",
    ),
    "counts are off": (
        "Round",
        lambda right: lambda **given: right(**given | {"tested": given["drafted"] + 1}),
        "counts",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_faulty_loop_is_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, patch, line = FAULTS[fault]
    monkeypatch.setattr(rounds, name, patch(getattr(rounds, name)))
    with pytest.raises(Exception, match=line):
        check_rounds()
