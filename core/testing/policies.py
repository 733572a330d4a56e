"""Checks of a policy: each takes a callable that makes one, and raises AssertionError."""

import copy
import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import final

import torch

from outrider.base.errors import PluginError
from outrider.contract.chance import Chance, SampledChance
from outrider.contract.context import Context, Tokens
from outrider.contract.draft import Draft
from outrider.contract.policy import Policy
from outrider.contract.round import Round
from outrider.contract.sheet import Sheet
from outrider.decoding.calls import depth_of, goes_on
from outrider.targets.tabular import TabularTarget
from outrider.testing.enumerated import Seed, SeededChance
from outrider.testing.exact import (
    Setup,
    assert_lossless,
    distribution_of,
    loop_distribution,
    loop_text,
    output_distribution,
)
from outrider.testing.examples import made_up_round
from outrider.testing.generators import played_twice
from outrider.testing.table_drafters import ChainDrafter, TreeDrafter
from outrider.testing.tiny_targets import SAMPLED, draft_on
from outrider.verifiers.block import Block
from outrider.verifiers.token import Token
from outrider.verifiers.traversal import Traversal

Make = Callable[[], Policy]

PASTS = ("nothing", "all accepted", "all rejected", "in turn", "silent")
"""What the rounds before were like."""


def check_depth_is_within_gamma(make: Make) -> None:
    """The depth is a whole number from 0 to gamma, whatever the rounds before were like."""
    for past, gamma in itertools.product(PASTS, (1, 2, 5, 9)):
        policy = make()
        policy.reset()
        for round in rounds(policy, past, gamma, 30):
            policy.observe(round)
            _assert_depth(policy, gamma, f"after {past}")
        policy.reset()
        _assert_depth(policy, gamma, f"after a reset, after {past}")


def _assert_depth(policy: Policy, gamma: int, when: str) -> None:
    try:
        depth_of(policy, gamma)
    except PluginError as error:
        raise AssertionError(f"{error}, {when}") from error


def check_the_same_rounds_give_the_same_answers(make: Make) -> None:
    """The answers depend only on the rounds observed; global generators are left alone."""

    def answers(past: str) -> list[object]:
        policy = make()
        policy.reset()
        replies: list[object] = []
        for round in rounds(policy, past, 4, 30):
            policy.observe(round)
            replies.append(depth_of(policy, 4))
            replies += [goes_on(policy, draft) for draft in _growing_drafts(round)]
        return replies

    for past in PASTS:
        first, second = played_twice(partial(answers, past))
        assert first == second, f"answers differ for the same rounds, after {past}"


def check_output_distribution_is_the_targets(make: Make) -> None:
    """With this policy the text has the target's distribution to 1e-12, over all outcomes.

    So no token is dropped once drawn, and only submitted tokens stop a draft.
    """
    target = TabularTarget(3)
    for past in PASTS[:4]:
        policy = _after(make, past, 2)
        for kind, rule in itertools.product(("drawn", "mixed"), (Token(), Block())):
            drafter = ChainDrafter(target, kind)
            setup = Setup(target, drafter, rule, [0, 2], gamma=2, sampling=SAMPLED)
            probs = output_distribution(setup, make_policy=partial(copy.deepcopy, policy))
            assert_lossless(probs, setup, f"after {past}, {kind} draft")
    small = TabularTarget(2)
    deep = Setup(small, ChainDrafter(small, "drawn"), Token(), [0, 1], gamma=8, sampling=SAMPLED)
    assert_lossless(output_distribution(deep, make), deep, "a draft of up to eight tokens")


def check_several_rounds_and_trees(make: Make) -> None:
    """The same holds over several rounds, in which the policy learns, and for drafts of trees.

    The rounds have made-up times, so that a policy may measure them.
    """
    small = TabularTarget(2)
    for kind in ("drawn", "mixed"):
        setup = Setup(small, ChainDrafter(small, kind), Token(), [0, 1], gamma=2, sampling=SAMPLED)
        fresh = partial(_MadeUpTimes, make)
        probs = loop_distribution(setup, 4, fresh)
        assert_lossless(probs, setup, f"four tokens, {kind} draft")
    for kind, vocab in (("distinct", 3), ("iid", 2), ("paths", 2)):
        target = TabularTarget(vocab)
        for past in PASTS[:4]:
            policy = _after(make, past, 2)
            setup = Setup(
                target, TreeDrafter(target, kind), Traversal(), [0, 1],
                gamma=2, sampling=SAMPLED, budget=4,
            )  # fmt: skip
            probs = output_distribution(setup, make_policy=partial(copy.deepcopy, policy))
            assert_lossless(probs, setup, f"after {past}, {kind} tree")


def check_the_second_text_of_a_seed(make: Make) -> None:
    """The same holds for a second text with the seed of the first, whose rounds it has seen, in
    this run or in one before.
    """
    target = TabularTarget(2)
    drafter = ChainDrafter(target, "drawn")
    setup = Setup(target, drafter, Token(), [0, 1], gamma=2, sampling=SAMPLED)

    def play(chance: Chance, *, length: int, before: int) -> tuple[int, ...]:
        seed, policy = Seed(chance), _MadeUpTimes(make)
        loop_text(setup, length, SeededChance(seed, "text"), policy=policy)
        if before:  # a run whose book begins anew, with what was learned
            policy.texts.clear()
            policy.texts_before = before
        return loop_text(setup, length, SeededChance(seed, "text"), policy=policy)

    for length, before in ((3, 0), (2, 1)):
        probs = distribution_of(partial(play, length=length, before=before))
        assert_lossless(probs, setup, "the second text of a seed")


def check_many_rounds(make: Make) -> None:
    """The same holds over longer texts and more rounds."""
    target = TabularTarget(2)
    for kind, gamma, length in (("mixed", 2, 4), ("drawn", 3, 5), ("drawn", 2, 6)):
        drafter = ChainDrafter(target, kind)
        setup = Setup(target, drafter, Block(), [0, 1], gamma=gamma, sampling=SAMPLED)
        probs = loop_distribution(setup, length, partial(_MadeUpTimes, make))
        assert_lossless(probs, setup, f"{length} tokens, {kind} draft, gamma {gamma}")


@final
class _MadeUpTimes(Policy):
    """A policy that is told the same times whatever the clock says."""

    def __init__(self, make: Make) -> None:
        self._policy = make()

    def notice(self, length: int, texts: int) -> None:
        self._policy.notice(length, texts)

    def depth(self, gamma: int) -> int:
        return depth_of(self._policy, gamma)

    def more(self, draft: Draft) -> bool:
        return goes_on(self._policy, draft)

    def observe(self, round: Round) -> None:
        self._policy.observe(replace(round, seconds=_seconds(round.drafted)))

    def reset(self) -> None:
        self._policy.reset()

    @property
    def texts(self) -> dict[str, int]:
        return self._policy.texts


def _after(make: Make, past: str, gamma: int) -> Policy:
    """Returns a policy that has seen rounds."""
    policy = make()
    policy.reset()
    for round in rounds(policy, past, gamma, 12):
        policy.observe(round)
    return policy


def _seconds(drafted: int) -> dict[str, float]:
    return {"draft": 0.002 * drafted, "score": 0.03 + 0.004 * drafted, "verify": 0.001}


def rounds(policy: Policy, past: str, gamma: int, count: int) -> Iterator[Round]:
    """Yields rounds whose draft lengths the policy itself chose, with made-up outcomes and times.

    past: one of `PASTS`. count: how many rounds.
    """
    drafter = ChainDrafter(TabularTarget(3), "drawn")
    for number in range(0 if past == "nothing" else count):
        depth = depth_of(policy, gamma)
        sheet = Sheet(
            sampling=SAMPLED,
            chance=SampledChance.seeded(number),
            vocab_size=3,
            gamma=0 if past == "silent" else depth,
            more=partial(goes_on, policy),
        )
        draft = draft_on(sheet, drafter, Context(Tokens([0, number % 3])))
        fully_accepted = past == "all accepted" or (past == "in turn" and number % 2 == 0)
        path = range(len(draft) if fully_accepted else 0)
        yield made_up_round(draft, path, _seconds(len(draft)))


def _growing_drafts(round: Round) -> Iterator[Draft]:
    """Yields the draft of a round after each of its tokens."""
    logits = torch.tensor([0.5, 0.1, -0.3], dtype=torch.float64)
    for length in range(1, len(round.draft) + 1):
        tokens, parents = round.draft[:length], round.parents[:length]
        yield Draft(tokens, parents, (logits.softmax(-1),) * length, (logits,) * length)


CHECKS = (
    check_depth_is_within_gamma,
    check_the_same_rounds_give_the_same_answers,
    check_output_distribution_is_the_targets,
    check_several_rounds_and_trees,
)
THOROUGH = (check_many_rounds,)
"""Checks that may take minutes."""
