"""A round knows its text, and rates are made of sums of counts."""

from dataclasses import replace
from typing import Any

import pytest
import torch

import outrider
from outrider import Context, Counts, Drafter, Pen, Round
from outrider.targets.tabular import TabularTarget


class Next(Drafter):
    """Drafts the number after each."""

    def propose(self, context: Context, pen: Pen) -> None:
        token = context.tokens[-1]
        while pen.open:
            token += 1
            pen.write(token % pen.vocab_size)


def made(drafted: int, tested: int, accepted: int, emitted: int) -> Round:
    return Round(
        (0,) * emitted, (), ("",) * emitted, (0,) * drafted, (), (), drafted, tested, accepted, {}
    )


def test_counts_add_up() -> None:
    counts = Counts.of([made(4, 3, 2, 3), made(4, 4, 4, 5)])
    assert counts == Counts(rounds=2, drafted=8, tested=7, accepted=6, emitted=8)
    assert counts.alpha_tested == pytest.approx(6 / 7)
    assert counts.acceptance_rate == pytest.approx(6 / 8)
    assert counts.block_efficiency == pytest.approx(8 / 2)


@pytest.mark.parametrize(("end", "tokens_a_call"), [(1, 1.0), (7, 3.5), (8, 4.0)])
def test_a_token_that_was_not_written_is_not_counted(end: int, tokens_a_call: float) -> None:
    target = TabularTarget(11, order=1)
    target.table = torch.eye(11).roll(1, 1).double().log()  # each token is followed by the next
    target.eos = frozenset({end})
    text = outrider.generate(target, [0], Next(), gamma=3, max_new_tokens=9)
    assert text.counts.emitted == len(text.tokens) == end
    assert text.counts.block_efficiency == tokens_a_call


def test_a_rate_of_nothing_is_none() -> None:
    assert Counts().block_efficiency is None
    plain = Counts.of([made(0, 0, 0, 1)] * 3)
    assert plain.alpha_tested is None
    assert plain.acceptance_rate is None
    assert plain.block_efficiency == 1


def test_the_text_of_a_round_is_that_of_its_pieces(outcome: Any) -> None:
    assert replace(outcome(3, 1), pieces=("Name ", "three")).text == "Name three"
