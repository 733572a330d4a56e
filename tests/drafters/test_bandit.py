"""The drafter whose rounds bring the most for their cost writes most drafts, text by text."""

import pytest
import torch
from tiny.pens import new_pen

from outrider import Context, Draft, Drafter, Pen, Tokens, Verdict
from outrider.drafters.bandit import Bandit

VOCAB_SIZE = 8


class Writes(Drafter):
    """Writes one token again and again."""

    def __init__(self, token: int) -> None:
        self.token = token

    def propose(self, context: Context, pen: Pen) -> None:
        while pen.open:
            pen.write(self.token)


def bandit() -> Bandit:
    return Bandit([Writes(1), Writes(2), "none"], c=[0.5, 0.1, 0.0])


def rounds(drafter: Drafter, count: int, keeps: int) -> list[str]:
    """Returns who wrote each draft of a text whose drafts of a token are accepted, others not."""
    text, names = drafter.open(), []
    context = Context(Tokens([0]))
    for _ in range(count):
        pen = new_pen(vocab_size=VOCAB_SIZE, gamma=3, budget=3)
        text.propose(context, pen)
        draft: Draft = pen.sheet.finish()
        accepted = tuple(range(len(draft))) if keeps in draft.tokens else ()
        names.append(str(draft.tokens[0]) if draft else "none")
        logits = torch.zeros(len(draft) + 1, VOCAB_SIZE)
        text.observe(context, draft, logits, Verdict(accepted, 0))
    text.remember(context)
    return names


@pytest.mark.parametrize(("keeps", "best"), [(1, "1"), (2, "2"), (3, "none")])
def test_most_rounds_go_to_the_drafter_that_pays(keeps: int, best: str) -> None:
    drafter = bandit()
    first, second = rounds(drafter, 20, keeps), rounds(drafter, 20, keeps)
    assert {*first[:3]} == {"1", "2", "none"}  # each once
    assert first[3:].count(best) >= 12
    assert second[0] == best  # as earlier texts taught
    assert drafter.remembered == 2
    drafter.forget()
    assert rounds(drafter, 3, keeps) == ["1", "2", "none"]


def test_the_rounds_of_a_text_soon_decide() -> None:
    drafter = bandit()
    for _ in range(4):
        rounds(drafter, 20, keeps=1)
    assert rounds(drafter, 20, keeps=2)[10:].count("2") >= 7


def test_a_round_that_another_drafted_is_not_its_own() -> None:
    text, context, pen = bandit().open(), Context(Tokens([0])), new_pen(vocab_size=VOCAB_SIZE)
    text.observe(context, Draft(), torch.zeros(1, VOCAB_SIZE), Verdict((), 0))
    text.propose(context, pen)
    assert pen.token(0) == 1  # the first is still to be tried


def test_a_plain_round_costs_little_where_no_draft_pays() -> None:
    """Three rounds of wrong drafts cost .5 and .1 a token; the rest are plain."""
    drafter = bandit()
    names = [name for _ in range(8) for name in rounds(drafter, 60, keeps=3)]
    cost = sum({"1": 2.5, "2": 1.3, "none": 1.0}[name] for name in names)
    assert len(names) / cost > 0.95
