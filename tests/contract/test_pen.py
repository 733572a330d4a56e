"""The pen records exactly the distribution that a token was drawn from."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from tiny.pens import LOGITS, SAMPLED, new_pen

from outrider import Chance, Constraint, Draft, DrafterError, Sampling
from outrider.contract.constraint import Guide
from outrider.contract.draft import ROOT
from outrider.testing.enumerated import EnumeratedChance


def test_a_chain_is_a_tree_with_parents_in_a_row() -> None:
    ink = new_pen()
    ink.draw(LOGITS)
    ink.write(2)
    draft = ink.sheet.finish()
    assert draft.is_chain
    assert draft.parents == (-1, 0)
    assert draft.probs[1] is None
    torch.testing.assert_close(draft.probs[0], LOGITS.softmax(-1))
    assert Draft().is_chain


def test_a_tree_knows_children_and_paths() -> None:
    ink = new_pen(budget=6)
    first, second = ink.branch(LOGITS, 2)
    (third,) = ink.branch(LOGITS, 1, after=second)
    ink.write(0, after=first)
    draft = ink.sheet.finish()
    assert draft.parents == (-1, -1, 1, 0)
    assert draft.children(ROOT) == [first, second]
    assert draft.path(third) == (second, third)
    assert draft.path(ROOT) == ()
    assert not draft.is_chain
    assert ink.last == 3
    assert ink.token(third) == draft.tokens[2]


@pytest.mark.parametrize("replacement", [True, False])
@pytest.mark.parametrize(
    "sampling",
    [
        SAMPLED,
        Sampling(temperature=0.5, top_k=3),
        Sampling(temperature=1.3, top_p=0.8),
        Sampling(temperature=0.9, top_k=3, top_p=0.7, min_p=0.3),
    ],
)
def test_siblings_follow_their_recorded_distributions(
    replacement: bool, sampling: Sampling
) -> None:
    """Given the siblings before it, each is drawn from exactly the distribution beside it."""

    def play(chance: Chance) -> Draft:
        ink = new_pen(chance, sampling, budget=3)
        ink.branch(LOGITS, 3, replacement=replacement)
        return ink.sheet.finish()

    probs: dict[tuple[int, ...], float] = defaultdict(float)
    drafts = {}
    for p, draft in EnumeratedChance.outcomes(play):
        for end in range(len(draft) + 1):  # there may be fewer tokens than siblings
            probs[draft.tokens[:end]] += p
            drafts[draft.tokens[:end]] = draft
    for tokens, p in probs.items():
        if tokens:
            recorded = drafts[tokens].probs[len(tokens) - 1]
            assert recorded is not None
            if len(tokens) == 1:
                torch.testing.assert_close(recorded, sampling.exact(LOGITS))
            conditional = p / probs[tokens[:-1]]
            assert float(recorded[tokens[-1]]) == pytest.approx(conditional, abs=1e-12)
            if not replacement:
                assert not recorded[list(tokens[:-1])].any()


def test_siblings_run_out_with_the_distribution() -> None:
    ink = new_pen(sampling=Sampling(temperature=1.0, top_k=2), budget=9)
    assert len(ink.branch(LOGITS, 3)) == 2
    assert len(ink.branch(LOGITS, 3, replacement=True)) == 3


def test_greedy_draws_are_point_masses() -> None:
    ink = new_pen(sampling=Sampling(), budget=9)
    assert ink.draw(LOGITS) == 2
    assert ink.branch(LOGITS, 3) == (1,)
    assert len(ink.branch(LOGITS, 2, replacement=True)) == 2
    assert ink.sheet.finish().probs == (None,) * 4


def test_the_pen_closes_at_gamma_and_at_the_budget() -> None:
    ink = new_pen(gamma=2)
    assert ink.open
    ink.write(0)
    assert ink.open
    ink.write(0)
    assert not ink.open
    with pytest.raises(DrafterError, match="wrote to depth 3: gamma is 2"):
        ink.write(0)
    assert not new_pen(gamma=0).open
    ink = new_pen(budget=1)
    with pytest.raises(DrafterError, match="wrote 2 tokens: budget is 1"):
        ink.branch(LOGITS, 2)


def test_the_policy_sees_only_submitted_tokens() -> None:
    seen = []

    def more(draft: Draft) -> bool:
        seen.append(draft.tokens)
        return len(draft) < 2

    ink = new_pen(more=more, gamma=5)
    assert not seen
    while ink.open:
        ink.write(len(ink))
    assert seen == [(0,), (0, 1)]
    with pytest.raises(DrafterError, match="wrote token 3: the policy stopped at 2"):
        ink.write(0)
    assert ink.sheet.finish().tokens == (0, 1)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_logits_that_score_nothing_are_refused(value: float) -> None:
    for logits in (torch.tensor([0.0, value, 0.0, 0.0]), torch.full((4,), float("-inf"))):
        for sampling in (SAMPLED, Sampling()):
            with pytest.raises(DrafterError, match="NaN, infinity or no finite entry"):
                new_pen(sampling=sampling).draw(logits)


@pytest.mark.parametrize("token", [2.7, "2", None, True, torch.tensor([2]), -1, 4])
def test_tokens_that_are_no_ids_are_refused(token: Any) -> None:
    with pytest.raises(DrafterError, match=r"^wrote id .*: the vocabulary has 4 tokens$"):
        new_pen().write(token)
    with pytest.raises(DrafterError, match="has no node 2: the last one is -1"):
        new_pen().write(0, after=2)


@pytest.mark.parametrize(
    ("logits", "line"),
    [
        (np.zeros(4), "as ndarray: expected a tensor"),
        (torch.zeros(4).to_sparse(), "that are complex or sparse: expected numbers"),
        (torch.zeros(5), r"of shape \(5,\): expected \(4,\)"),
    ],
)
def test_logits_that_are_no_row_of_numbers_are_refused(logits: Any, line: str) -> None:
    with pytest.raises(DrafterError, match=f"^gave logits {line}$"):
        new_pen().draw(logits)


def test_probabilities_in_place_of_logits_are_warned_of() -> None:
    with pytest.warns(UserWarning, match="expected logits, not probabilities"):
        new_pen().draw(torch.arange(4.0).softmax(-1))


def test_a_drafter_may_lower_gamma_and_never_raise_it() -> None:
    ink = new_pen(gamma=3)
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
    ink, buffer = new_pen(sampling=sampling), LOGITS.clone()
    ink.draw(buffer)
    before = ink.sheet.finish()
    buffer.fill_(0.0)
    (logits,), (probs,) = ink.sheet.finish().logits, ink.sheet.finish().probs
    assert torch.equal(logits, LOGITS)
    if sampling.greedy:
        assert probs is None
    else:
        torch.testing.assert_close(probs, LOGITS.softmax(-1))
    assert before.tokens == ink.sheet.finish().tokens


class OnlyOne(Constraint):
    def logits(self, ids: Sequence[int], logits: torch.Tensor) -> torch.Tensor:
        return logits.masked_fill(torch.arange(4) != 1, float("-inf"))


def test_a_draw_keeps_to_the_constraint_unless_no_token_is_left() -> None:
    ink = new_pen(guide=Guide(OnlyOne(), [0]))
    ink.draw(LOGITS)
    without = LOGITS.index_fill(0, torch.tensor([1]), float("-inf"))
    ink.draw(without)
    first, second = ink.sheet.finish().probs
    assert first is not None and first.tolist() == [0, 1, 0, 0]
    assert second is not None and second.tolist() == without.softmax(-1).tolist()


@pytest.mark.parametrize("width", [0, 2.5, None])
def test_a_width_that_is_no_number_of_siblings_is_refused(width: Any) -> None:
    """A loop over an open pen would never end where nothing is written."""
    with pytest.raises(DrafterError, match=r"^asked for .* siblings: expected 1 or more$"):
        new_pen().branch(LOGITS, width)


def test_a_draft_that_is_handed_in_takes_no_more_tokens() -> None:
    ink = new_pen(gamma=2)
    ink.write(2)
    assert ink.sheet.finish().tokens == ink.sheet.finish().tokens == (2,)
    with pytest.raises(DrafterError, match=r"wrote after propose\(\) had returned"):
        ink.write(1)
