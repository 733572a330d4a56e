"""Each check of a policy catches the faulty policy that was made for it."""

import random
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from outrider import Draft, Fixed, Policy, PolicyExample, Round
from outrider.contract.sheet import Sheet
from outrider.policies.bandit import Bandit
from outrider.testing import check_policy, checks_of, examples, policies


class TooDeep(Policy):
    def depth(self, gamma: int) -> int:
        return gamma + 1


class Moody(Policy):
    """Draws random numbers of its own."""

    def depth(self, gamma: int) -> int:
        return random.randint(0, gamma)


class DropsADrawnToken(Policy):
    """Reaches for the sheet and takes back a token that it does not like."""

    def depth(self, gamma: int) -> int:
        return gamma

    def more(self, draft: Draft) -> bool:
        if draft.tokens[-1] != 0:
            return True
        frame: Any = sys._getframe(1)
        while not isinstance(frame.f_locals.get("self"), Sheet):
            frame = frame.f_back
        sheet = frame.f_locals["self"]
        kept = Draft(draft.tokens[:-1], draft.parents[:-1], draft.probs[:-1], draft.logits[:-1])
        sheet.finish = lambda: kept
        return False


class SharpensTheFifthToken(Policy):
    """Computes in place on the distribution that the fifth token was drawn from."""

    def depth(self, gamma: int) -> int:
        return gamma

    def more(self, draft: Draft) -> bool:
        probs = draft.probs[-1]
        if len(draft) == 5 and probs is not None:
            probs.square_().div_(probs.sum())
        return True


class TiresOfTrees(DropsADrawnToken):
    """Takes back the last sibling; it leaves chains alone."""

    def more(self, draft: Draft) -> bool:
        return draft.is_chain or super().more(draft)


class LearnsToCheat(DropsADrawnToken):
    """Takes back tokens once it has seen two rounds with a text that goes on."""

    seen = 0

    def observe(self, round: Round) -> None:
        self.seen += 1

    def more(self, draft: Draft) -> bool:
        return self.seen not in (1, 2) or super().more(draft)


class KnowsItsSeed(Policy):
    """Learns from a first text what the seed accepts, and keeps no book of the texts."""

    def __init__(self) -> None:
        self.number, self.accepted = 0, list[int]()

    @property
    def texts(self) -> dict[str, int]:
        return {}

    def reset(self) -> None:
        self.number += 1

    def depth(self, gamma: int) -> int:
        return 0 if self.number == 2 and self.accepted[0] else gamma

    def observe(self, round: Round) -> None:
        self.accepted.append(round.accepted)


class SaysWhatIsWrong(Policy):
    examples = (PolicyExample(rounds=((1, 0),), gamma=2),)

    def depth(self, gamma: int) -> int:
        return gamma


FAULTY: list[tuple[type[Policy], Callable[[Any], None]]] = [
    (TooDeep, policies.check_depth_is_within_gamma),
    (Moody, policies.check_the_same_rounds_give_the_same_answers),
    (DropsADrawnToken, policies.check_output_distribution_is_the_targets),
    (SharpensTheFifthToken, policies.check_output_distribution_is_the_targets),
    (TiresOfTrees, policies.check_several_rounds_and_trees),
    (LearnsToCheat, policies.check_several_rounds_and_trees),
    (KnowsItsSeed, policies.check_the_second_text_of_a_seed),
    (SaysWhatIsWrong, examples.check_its_examples_of_lengths_hold),
]


@pytest.mark.parametrize(("part", "check"), FAULTY)
def test_the_check_catches_its_faulty_part(part: Any, check: Callable[[Any], None]) -> None:
    with pytest.raises(AssertionError):
        check(part)


def test_every_check_has_a_faulty_part() -> None:
    assert {check for _, check in FAULTY} == {
        check for part, _ in FAULTY for check in checks_of(part)
    }


def test_the_thorough_check_catches_a_faulty_part() -> None:
    with pytest.raises(AssertionError):
        policies.check_many_rounds(LearnsToCheat)


def test_an_honest_policy_passes() -> None:
    check_policy(Fixed)


def test_a_policy_that_learned_from_a_seed_does_not_bias_the_next_text(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(KnowsItsSeed, "texts", Policy.texts)
    monkeypatch.setattr("outrider.policies.bandit.EXPLORE", 0.1)
    policies.check_the_second_text_of_a_seed(KnowsItsSeed)
    policies.check_the_second_text_of_a_seed(partial(Bandit, c=0.1))


def test_a_loop_that_forgets_earlier_runs_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KnowsItsSeed, "texts", Policy.texts)
    monkeypatch.setattr(KnowsItsSeed, "texts_before", property(lambda _: 0, lambda *_: None))
    with pytest.raises(AssertionError, match="second text"):
        policies.check_the_second_text_of_a_seed(KnowsItsSeed)
