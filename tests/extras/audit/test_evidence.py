"""One text has a limited part in evidence, and faults are planted beside what was written."""

import math
from collections.abc import Sequence

import pytest

from outrider.extras.audit.client import Token
from outrider.extras.audit.evidence import CONTROL, MOST, RATES, Evidence


class Gathered:
    """Gathers evidence by each token "b", and by no other."""

    growth = 0.0

    def see(self, tokens: Sequence[Token]) -> None:
        self.growth += tokens.count("b")


def seen(alike: str, *texts: str) -> Evidence:
    evidence = Evidence(Gathered)
    for text in texts:
        evidence.see(text, [alike] * len(text), Gathered.see)
    return evidence


def test_one_text_is_taken_for_so_much_evidence_and_no_more() -> None:
    assert seen("a", "ab", "ab").growths[0] == 2
    assert seen("b", "b" * 99, "b" * 99).growths[0] == pytest.approx(2 * MOST)
    assert math.log(1 / 0.01) + math.log(4 / 0.01) > MOST  # what one fortune has to reach


def test_tokens_that_look_right_are_planted_as_often_as_it_is_told() -> None:
    evidence = seen("b", *["a" * 50] * 40)
    shares = evidence._changed / evidence._tokens
    assert shares == pytest.approx(RATES, abs=0.02) and shares[0] == 0
    assert evidence.growths[0] == 0 < evidence.growths[CONTROL]
    assert (evidence.least(100), evidence.least(1e9)) == (shares[1], None)
    assert seen("b", *["ab"] * 7).least(0) is None
    assert seen("", "b", "a" * 50).growths[CONTROL] > 1  # those of the first text, if none is known
