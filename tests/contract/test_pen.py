"""The pen records exactly the distribution that a token was drawn from."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
import torch

from outrider import (
    Chance,
    Constraint,
    Draft,
    DrafterError,
    Pen,
    SampledChance,
    Sampling,
)
from outrider.contract.constraint import Guide
from outrider.contract.draft import ROOT
from outrider.testing.enumerated import EnumeratedChance

SAMPLED = Sampling(temperature=1.0)
LOGITS = torch.tensor([0.0, 1.0, 2.0, -1.0], dtype=torch.float64)


def pen(chance: Chance | None = None, sampling: Sampling = SAMPLED, **options: Any) -> Pen:
    return Pen(
        sampling=sampling,
        chance=chance or SampledChance.seeded(0),
        vocab_size=4,
        **{"gamma": 3} | options,
    )


def test_a_chain_is_a_tree_with_parents_in_a_row() -> None:
    ink = pen()
    ink.draw(LOGITS)
    ink.write(2)
    draft = ink.finish()
    assert draft.is_chain
    assert draft.parents == (-1, 0)
    assert draft.probs[1] is None
    torch.testing.assert_close(draft.probs[0], LOGITS.softmax(-1))
    assert Draft().is_chain


def test_a_tree_knows_children_and_paths() -> None:
    ink = pen(budget=6)
    first, second = ink.branch(LOGITS, 2)
    (third,) = ink.branch(LOGITS, 1, after=second)
    ink.write(0, after=first)
    draft = ink.finish()
    assert draft.parents == (-1, -1, 1, 0)
    assert draft.children(ROOT) == [first, second]
    assert draft.path(third) == (second, third)
    assert draft.path(ROOT) == ()
    assert not draft.is_chain
    assert ink.last == 3
    assert ink.token(third) == draft.tokens[2]


@pytest.mark.parametrize("replacement", [True, False])
@pytest.mark.parametrize("sampling", [SAMPLED, Sampling(temperature=0.5, top_k=3)])
def test_siblings_follow_their_recorded_distributions(
    replacement: bool, sampling: Sampling
) -> None:
    """Given the siblings before it, each is drawn from exactly the distribution beside it."""

    def play(chance: Chance) -> Draft:
        ink = pen(chance, sampling, budget=3)
        ink.branch(LOGITS, 3, replacement=replacement)
        return ink.finish()

    probs: dict[tuple[int, ...], float] = defaultdict(float)
    drafts = {}
    for p, draft in EnumeratedChance.outcomes(play):
        for end in range(4):
            probs[draft.tokens[:end]] += p
            drafts[draft.tokens[:end]] = draft
    for tokens, p in probs.items():
        if tokens:
            recorded = drafts[tokens].probs[len(tokens) - 1]
            assert recorded is not None
            conditional = p / probs[tokens[:-1]]
            assert float(recorded[tokens[-1]]) == pytest.approx(conditional, abs=1e-12)
            if not replacement:
                assert not recorded[list(tokens[:-1])].any()


def test_siblings_run_out_with_the_distribution() -> None:
    ink = pen(sampling=Sampling(temperature=1.0, top_k=2), budget=9)
    assert len(ink.branch(LOGITS, 3)) == 2
    assert len(ink.branch(LOGITS, 3, replacement=True)) == 3


def test_a_float32_distribution_is_recorded_in_the_precision_of_its_draw() -> None:
    ink = pen()
    ink.draw(torch.zeros(4))
    (probs,) = ink.finish().probs
    assert probs is not None
    assert probs.dtype == torch.float64
    assert float(probs.sum()) == 1


def test_greedy_draws_are_point_masses() -> None:
    ink = pen(sampling=Sampling(), budget=9)
    assert ink.draw(LOGITS) == 2
    assert ink.branch(LOGITS, 3) == (1,)
    assert len(ink.branch(LOGITS, 2, replacement=True)) == 2
    assert ink.finish().probs == (None,) * 4


def test_the_pen_closes_at_gamma_and_at_the_budget() -> None:
    ink = pen(gamma=2)
    assert ink.open
    ink.write(0)
    assert ink.open
    ink.write(0)
    assert not ink.open
    with pytest.raises(DrafterError, match="wrote to depth 3: gamma is 2"):
        ink.write(0)
    assert not pen(gamma=0).open
    ink = pen(budget=1)
    with pytest.raises(DrafterError, match="wrote 2 tokens: budget is 1"):
        ink.branch(LOGITS, 2)


def test_the_policy_sees_only_submitted_tokens() -> None:
    seen = []

    def more(draft: Draft) -> bool:
        seen.append(draft.tokens)
        return len(draft) < 2

    ink = pen(more=more, gamma=5)
    assert not seen
    while ink.open:
        ink.write(len(ink))
    assert seen == [(0,), (0, 1)]
    with pytest.raises(DrafterError, match="wrote token 3: the policy stopped at 2"):
        ink.write(0)
    assert ink.finish().tokens == (0, 1)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_logits_that_score_nothing_are_refused(value: float) -> None:
    for logits in (torch.tensor([0.0, value, 0.0, 0.0]), torch.full((4,), float("-inf"))):
        for sampling in (SAMPLED, Sampling()):
            with pytest.raises(DrafterError, match="NaN, infinity or no finite entry"):
                pen(sampling=sampling).draw(logits)


def test_tokens_that_no_draft_may_hold_are_refused() -> None:
    with pytest.raises(DrafterError, match=r"logits of shape \(5,\): expected \(4,\)"):
        pen().draw(torch.zeros(5))
    for token in (-1, 4):
        with pytest.raises(DrafterError, match=f"wrote id {token}: the vocabulary has 4 tokens"):
            pen().write(token)
    with pytest.raises(DrafterError, match="wrote after node 2: the last node is -1"):
        pen().write(0, after=2)


def test_questions_are_a_tree_of_their_own() -> None:
    pen = Pen(sampling=Sampling(), chance=SampledChance.seeded(0), vocab_size=6, gamma=2)
    pen.write(3)
    assert [pen.ask(1), pen.ask(2), pen.ask(4, after=0), pen.ask(5, after=-1)] == [0, 1, 2, 3]
    pen.write(0)
    questions = pen.questions()
    assert (questions.tokens, questions.parents) == ((1, 2, 4, 5), (-1, 0, 0, -1))
    draft = pen.finish()
    assert draft.tokens == (3, 0)
    both = draft.joined(questions)
    assert both.tokens == (3, 0, 1, 2, 4, 5)
    assert both.parents == (-1, 0, -1, 2, 2, -1)
    assert draft.joined(Draft()) == Draft(draft.tokens, draft.parents, draft.probs)
    with pytest.raises(DrafterError, match="asked after question 4: there are 4"):
        pen.ask(0, after=4)
    with pytest.raises(DrafterError, match="wrote id 6: the vocabulary has 6 tokens"):
        pen.ask(6)


@pytest.mark.parametrize(("name", "value"), [("gamma", 40), ("budget", 40), ("vocab_size", 9)])
def test_the_bounds_of_a_draft_are_read_only(name: str, value: int) -> None:
    ink = pen()
    with pytest.raises(AttributeError):
        setattr(ink, name, value)


def test_a_drafter_may_lower_gamma_and_never_raise_it() -> None:
    ink = pen(gamma=3)
    ink.limit(5)
    assert ink.gamma == 3
    ink.limit(1)
    ink.limit(2)
    assert ink.gamma == 1
    ink.write(0)
    assert not ink.open
    with pytest.raises(DrafterError, match="wrote to depth 2: gamma is 1"):
        ink.write(0)


@pytest.mark.parametrize("sampling", [SAMPLED, Sampling()])
def test_a_buffer_that_is_used_again_changes_nothing_recorded(sampling: Sampling) -> None:
    ink, buffer = pen(sampling=sampling), LOGITS.clone()
    ink.draw(buffer)
    before = ink.finish()
    buffer.fill_(0.0)
    (logits,), (probs,) = ink.finish().logits, ink.finish().probs
    assert logits is not None
    assert torch.equal(logits, LOGITS)
    if sampling.greedy:
        assert probs is None
    else:
        assert probs is not None
        torch.testing.assert_close(probs, LOGITS.softmax(-1))
    assert before.tokens == ink.finish().tokens


def test_a_pen_that_continues_another_has_its_own_numbers() -> None:
    pen = Pen(sampling=Sampling(), chance=SampledChance.seeded(0), vocab_size=9, gamma=4, budget=6)
    assert pen.continued().gamma == 4  # of an empty draft
    pen.limit(2)
    pen.write(1)
    pen.write(2)
    assert not pen.open
    second = pen.continued()
    assert (second.gamma, second.budget, second.room, len(second), second.last) == (2, 4, 4, 0, -1)
    assert second.open
    second.write(3)
    second.write(4, after=-1)
    assert (second.token(0), second.token(1), second.last) == (3, 4, 1)
    with pytest.raises(DrafterError, match="wrote after node 2: the last node is 1"):
        second.write(5, after=2)
    second.write(5)
    with pytest.raises(DrafterError, match="wrote to depth 3: gamma is 2"):
        second.write(6)
    second.ask(7, node=1)
    second.ask(8, after=-1)
    with pytest.raises(DrafterError, match="asked after node 3: the last node is 2"):
        second.ask(7, node=3)
    assert pen.finish().tokens == (1, 2, 3, 4, 5)
    assert second.finish().parents == (-1, 0, 1, 1, 3)
    assert pen.questions().parents == (-5, -3)


@pytest.mark.parametrize(
    "move",
    [
        partial(Pen.write, token=0),
        Pen.finish,
        partial(Pen.limit, depth=0),
        partial(Pen.faster, gamma=1),
        Pen.continued,
    ],
)
def test_no_guess_is_passed_over(move: Callable[[Pen], object]) -> None:
    for guesses in (1, 2):  # a guess, and a guess of a guess
        ink = pen()
        fast = ink.faster(2)
        (fast if guesses == 1 else fast.faster(1)).draw(LOGITS)
        with pytest.raises(DrafterError, match="passed over the guess of token"):
            move(ink)


def test_a_guess_that_a_continuing_pen_passes_over_is_found_at_the_end() -> None:
    first = pen()
    first.write(1)
    first.continued().faster(1).draw(LOGITS)
    with pytest.raises(DrafterError, match="passed over the guess of token 1: use redraw"):
        first.finish()
    with pytest.raises(DrafterError):
        pen().redraw(LOGITS)


class OnlyOne(Constraint):
    def logits(self, ids: Sequence[int], logits: torch.Tensor) -> torch.Tensor:
        return logits.masked_fill(torch.arange(4) != 1, float("-inf"))


def test_a_draw_keeps_to_the_constraint_unless_no_token_is_left() -> None:
    ink = pen(guide=Guide(OnlyOne(), [0]))
    ink.draw(LOGITS)
    without = LOGITS.index_fill(0, torch.tensor([1]), float("-inf"))
    ink.draw(without)
    first, second = ink.finish().probs
    assert first is not None and first.tolist() == [0, 1, 0, 0]
    assert second is not None and second.tolist() == without.softmax(-1).tolist()


class Races(Chance):
    """Has nothing but the noise of positions, and lists those that were asked for."""

    def __init__(self) -> None:
        self.positions: list[int] = []

    def coins(self, probs: torch.Tensor) -> list[bool]:
        raise AssertionError("a coin was tossed")

    def categorical(self, probs: torch.Tensor) -> int:
        raise AssertionError("a token was drawn apart from the noise of its position")

    def race(self, probs: torch.Tensor, position: int) -> int:
        self.positions.append(position)
        return int(probs.argmax())


@pytest.mark.parametrize(("sampling", "positions"), [(SAMPLED, [11, 12, 11, 12]), (Sampling(), [])])
def test_under_a_coupled_rule_guesses_and_tokens_share_the_noise_of_their_positions(
    sampling: Sampling, positions: list[int]
) -> None:
    races = Races()
    ink = pen(races, sampling, start=10)
    ink.write(1)
    guesses = ink.faster(2)
    guesses.draw(LOGITS)
    guesses.draw(LOGITS)
    assert ink.redraw(-LOGITS) == 3
    ink.draw(LOGITS)
    assert races.positions == positions
    assert ink.finish().tokens == (1, 3, 2)
