"""One round: what is scored, what is added to the text, and what is counted."""

import copy
from collections.abc import Sequence
from typing import Any, ClassVar

import pytest
import torch

from outrider import Constraint, Context, Draft, Drafter, Pen, Verdict, decode, decode_together
from outrider.base.errors import DrafterError
from outrider.contract.composition import ask
from outrider.contract.context import Features
from outrider.decoding.clock import Lap
from outrider.decoding.rounds import Proposal, finish, propose
from outrider.decoding.run import ActiveText, Run, begin_text
from outrider.targets.tabular import TabularTarget
from outrider.testing.tiny_targets import VOCAB_SIZE, tiny_target
from outrider.verifiers.recursive import Candidates
from outrider.verifiers.sample_match import SampleMatch

TARGET = TabularTarget(6, seed=1)
PROMPT = [0, 1]


class Asks(Drafter):
    """Writes two tokens, and asks what comes behind the text and behind each of them."""

    kind = "deterministic"

    def __init__(self) -> None:
        self.answers: list[tuple[Draft, torch.Tensor]] = []

    def propose(self, context: Context, pen: Pen) -> None:
        pen.write(2)
        pen.write(3, after=-1)
        ask(pen, 0)
        ask(pen, 4, node=1)
        ask(pen, 5)
        ask(pen, 1, node=0)

    def answer(self, probes: Draft, logits: torch.Tensor) -> None:
        self.answers.append((probes, logits))


def begun(drafter: Drafter, constraint: Any = None, **options: Any) -> tuple[Run, ActiveText]:
    run = Run(target=TARGET, verifier=SampleMatch(), **options)
    text = begin_text(
        run, PROMPT, TARGET.open(PROMPT), drafter, policy=None, chance=None, constraint=constraint
    )
    return run, text


def scored(run: Run, text: ActiveText) -> tuple[Proposal, torch.Tensor]:
    (proposal,) = propose(run, [text], text.drafter)
    return proposal, text.session.score(proposal.to_score)


def test_probes_are_scored_behind_the_draft_and_answered() -> None:
    drafter = Asks()
    run, text = begun(drafter, budget=2)
    proposal, logits = scored(run, text)
    assert proposal.draft.tokens == (2, 3)
    assert proposal.to_score.tokens == (2, 3, 0, 4, 5, 1)
    assert proposal.to_score.parents == (-1, -1, -1, 1, 3, 0)
    finish(run, text, proposal, logits, Lap(0.0))
    ((probes, answers),) = drafter.answers
    assert probes.parents == (-1, -3, 1, -2)
    for path, row in zip(([0], [3, 4], [3, 4, 5], [2, 1]), answers, strict=True):
        torch.testing.assert_close(row, TARGET.logits([*PROMPT, *path]))


class Observes(Drafter):
    """Writes a token of each kind, and keeps what it is shown."""

    kind = "deterministic"

    def __init__(self) -> None:
        self.shown: list[tuple[list[int], Draft, torch.Tensor, Verdict]] = []

    def open(self) -> "Observes":
        return copy.copy(self)

    def propose(self, context: Context, pen: Pen) -> None:
        pen.write(2)
        pen.write(3, after=-1)

    def observe(
        self, context: Context, draft: Draft, logits: torch.Tensor, verdict: Verdict
    ) -> None:
        self.shown.append((context.tokens[:], draft, logits.clone(), verdict))
        logits.zero_()


class ObservesStates(Observes):
    """Asks about a token, too, whose states it is not shown."""

    needs = frozenset({"hidden_states"})
    texts: ClassVar[list[tuple[list[int], Draft, torch.Tensor]]] = []

    def propose(self, context: Context, pen: Pen) -> None:
        if pen.open:
            pen.write(2)
            pen.write(3, after=-1)
            ask(pen, 1, node=1)

    def answer(self, probes: Draft, logits: torch.Tensor) -> None: ...

    def observe_states(self, context: Context, draft: Draft, states: Features) -> None:
        rows = states["hidden_states"].clone()
        self.texts.append((context.tokens[:], draft, rows))


def test_an_observer_is_shown_the_states_of_every_node() -> None:
    """Rejected ones too, in a text alone and in a batch: those of a plain pass over the path."""
    target, prompts = tiny_target(VOCAB_SIZE), [[0, 1, 2], [3, 0, 1, 2, 0]]
    rule, options = Candidates(), {"budget": 2, "max_new_tokens": 6}
    ObservesStates.texts.clear()
    for prompt in prompts:
        list(decode(target, ObservesStates(), rule, prompt, **options))
    list(decode_together(target, ObservesStates(), rule, prompts, **options))
    assert len(ObservesStates.texts) > 8
    for tokens, draft, rows in ObservesStates.texts:
        assert len(rows) == len(draft) + 1
        for path, row in zip(([], *([token] for token in draft.tokens)), rows, strict=True):
            session = target.open([*tokens, *path], ObservesStates.needs)
            session.score(Draft())
            torch.testing.assert_close(row, session.features()["hidden_states"][-1])


class ComputesTooLittle(Drafter):
    def propose(self, context: Context, pen: Pen) -> None:
        while pen.open:
            pen.write(2)

    def computed(self, context: Context, draft: Draft) -> Features:
        return {"keys.0": torch.zeros(len(draft), 1, 1)}


def test_a_drafter_that_computed_too_few_rows_is_named() -> None:
    rounds = decode(TARGET, ComputesTooLittle(), SampleMatch(), PROMPT, gamma=2)
    with pytest.raises(DrafterError, match=r"ComputesTooLittle.*2 rows of keys\.0, expected 3"):
        list(rounds)


class AllowsOne(Constraint):
    def logits(self, ids: Sequence[int], logits: torch.Tensor) -> torch.Tensor:
        allowed = torch.full_like(logits, float("-inf"))
        allowed[5] = 0
        return allowed


def test_an_observer_is_shown_the_targets_own_logits_at_every_node() -> None:
    """After the context that it drafted for, rejected nodes too, and before the constraint."""
    drafter = Observes()
    run, text = begun(drafter, AllowsOne())
    round = finish(run, text, *scored(run, text), Lap(0.0))
    assert (round.tokens, round.accepted) == ((5,), 0)
    ((tokens, draft, logits, verdict),) = drafter.shown
    assert verdict == Verdict((), 5)
    assert (tokens, draft.tokens) == (PROMPT, (2, 3))
    for row, own in zip(([], [2], [3]), logits, strict=True):
        torch.testing.assert_close(own, TARGET.logits([*PROMPT, *row]))
