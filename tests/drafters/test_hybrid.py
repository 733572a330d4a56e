"""The first of several drafters with a draft writes it, just as it would alone."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from tiny.pens import new_pen

from outrider import (
    ConfigError,
    Constraint,
    Context,
    Draft,
    Drafter,
    Pen,
    Sampling,
    Tokens,
)
from outrider.contract.constraint import Guide
from outrider.drafters.hybrid import Hybrid
from outrider.plugins.parts import make
from outrider.testing.tiny_targets import VOCAB_SIZE, draft_after, tiny_target

EAGLE = {"drafter": "eagle", "path": "untrained"}


@pytest.mark.parametrize(
    ("text", "who"), [([0, 1, 2, 0], "prompt_lookup"), ([0, 1, 2], "bigram"), ([3], "bigram")]
)
def test_the_first_that_has_a_draft(text: list[int], who: str) -> None:
    target, sampling = tiny_target(VOCAB_SIZE), Sampling(temperature=1.0)
    drafter, alone = Hybrid(["none", "prompt_lookup", "bigram"]), make("drafter", who)
    for part in (drafter, alone):
        part.bind(target)
    drafts = [
        draft_after(part, target, text, 3, sampling=sampling, seed=5) for part in (drafter, alone)
    ]
    assert drafts[0].tokens == drafts[1].tokens
    assert [probs is None for probs in drafts[0].probs] == [
        probs is None for probs in drafts[1].probs
    ]


def drafts(drafter: Drafter, text: list[int], gamma: int = 4, budget: int = 6) -> Draft:
    target = tiny_target(VOCAB_SIZE)
    drafter.bind(target)
    pen = new_pen(vocab_size=VOCAB_SIZE, gamma=gamma, budget=budget)
    drafter.propose(Context(Tokens(text)), pen)
    return pen.sheet.finish()


class Two(Drafter):
    """Writes the tokens 1 and 2, since it reaches no deeper."""

    def propose(self, context: Context, pen: Pen) -> None:
        pen.limit(2)
        while pen.open:
            pen.write(1 + len(pen))


def test_the_second_drafter_continues_the_first_ones_draft() -> None:
    text = [3, 1, 2, 0, 3]
    assert drafts(Hybrid(chain=[Two(), "prompt_lookup"]), text).tokens == (1, 2, 0, 3)
    assert drafts(Hybrid(chain=["none", "prompt_lookup"]), text).tokens == (1, 2, 0, 3)
    assert drafts(Hybrid(chain=[Two()]), text).tokens == (1, 2)
    assert drafts(Hybrid(chain=[Two(), "suffix"]), text).tokens == (1, 2, 0, 3)
    # Each token has the distribution of the drafter that wrote it, after the same text.
    drawn = drafts(Hybrid(chain=[Two(), "bigram"]), text)
    alone = drafts(Hybrid(["bigram"]), [*text, 1, 2], gamma=2)
    assert drawn.tokens[2:] == alone.tokens
    for probs, expected in zip(drawn.probs[2:], alone.probs, strict=True):
        assert torch.equal(probs, expected)


def test_a_drafter_that_never_stops_has_a_number_of_steps() -> None:
    chain: list[Any] = ["bigram", Two(), "bigram"]
    draft = drafts(Hybrid(chain=chain, steps=1), [3, 1, 2, 0, 3])
    assert [probs is None for probs in draft.probs] == [False, True, False, False]
    assert None not in drafts(Hybrid(chain=chain), [3, 1, 2, 0, 3]).probs


def test_a_tree_may_come_last() -> None:
    tree = {"drafter": "random", "tree": "2x2"}
    draft = drafts(Hybrid(chain=[Two(), tree]), [3], budget=8)
    assert draft.parents == (-1, 0, 1, 1, 2, 2, 3, 3)
    assert drafts(Hybrid(chain=[Two(), tree]), [3], budget=5).parents == (-1, 0, 1, 1, 2)


def test_drafts_are_merged_into_one_tree() -> None:
    text = [3, 1, 2, 1, 2, 3, 1]
    merged = drafts(Hybrid(merge=[Two(), "prompt_lookup"]), text, gamma=3, budget=6)
    # 1, 2 and 2, 1, 2: the second begins otherwise.
    assert (merged.tokens, merged.parents) == ((1, 2, 2, 1, 2), (-1, 0, -1, 2, 3))
    shared = drafts(Hybrid(merge=["prompt_lookup", Two(), "suffix"]), [1, 2, 3, 0], gamma=3)
    assert (shared.tokens, shared.parents) == ((1, 2), (-1, 0))
    assert drafts(Hybrid(merge=[Two(), "prompt_lookup"]), text, budget=3).tokens == (1, 2, 2)


class OnlyTwo(Constraint):
    """Allows 2 after the prompt, and then 1 alone."""

    def logits(self, ids: Sequence[int], logits: torch.Tensor) -> torch.Tensor:
        allowed = torch.full_like(logits, float("-inf"))
        allowed[2 if len(ids) == 1 else 1] = 0.0
        return allowed

    def steering(self) -> Constraint:
        return self


def test_merged_drafts_all_begin_at_the_root_of_a_constraint() -> None:
    pen = new_pen(vocab_size=VOCAB_SIZE, gamma=2, budget=4, guide=Guide(OnlyTwo(), [3]))
    Hybrid(merge=[Two(), "random"]).propose(Context(Tokens([3])), pen)
    draft = pen.sheet.finish()
    assert (draft.tokens, draft.parents) == ((1, 2, 2, 1), (-1, 0, -1, 2))


def test_the_policy_ends_the_whole_chain() -> None:
    pen = new_pen(
        sampling=Sampling(), vocab_size=VOCAB_SIZE, gamma=4, more=lambda draft: len(draft) < 2
    )
    Hybrid(chain=[Two(), "bigram"]).propose(Context(Tokens([3])), pen)
    assert pen.sheet.finish().tokens == (1, 2)


class Silent(Drafter):
    def propose(self, context: Context, pen: Pen) -> None: ...

    def answer(self, probes: Draft, logits: torch.Tensor) -> None: ...


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"drafters": [Silent(), Silent()]}, "expected one that asks the target"),
        ({"merge": [Silent()]}, "expected none that asks the target"),
        ({"drafters": [{**EAGLE, "tree": "3x2"}, {**EAGLE, "tree": "top:3x2"}]}, "one kind of tre"),
        ({"chain": ["prompt_lookup", EAGLE]}, "expected Eagle first, since it needs hidden_states"),
        ({"chain": ["token_recycling", "suffix"]}, "expected TokenRecycling last, since it writes"),
        ({"chain": ["suffix"], "merge": ["suffix"]}, r"drafter\.merge: expected none beside"),
    ],
    ids=["ask", "asks", "trees", "needs", "order", "both"],
)
def test_drafters_that_can_not_be_combined_are_refused(settings: Any, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        Hybrid(**settings)
