"""Checks of a policy: each takes a callable that makes one, and raises AssertionError."""

import copy
import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from outrider.base.errors import PluginError
from outrider.contract.chance import Chance, SampledChance
from outrider.contract.context import Context, Tokens
from outrider.contract.policy import Policy, PolicyExample
from outrider.contract.round import Round
from outrider.contract.sheet import Sheet
from outrider.contract.verifier import Verifier
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
from outrider.testing.examples import growing, made_up_round
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
        policy, when = make(), f"after {past}"
        policy.reset()
        try:
            for round in rounds(policy, past, gamma, 30):
                policy.observe(round)
                depth_of(policy, gamma)
            policy.reset()
            when = f"after a reset, {when}"
            depth_of(policy, gamma)
        except PluginError as error:
            raise AssertionError(f"{error}, {when}") from error


def check_the_same_rounds_give_the_same_answers(make: Make) -> None:
    """The answers depend only on the rounds observed; global generators are left alone."""
    example = PolicyExample(rounds=(), gamma=4)

    def answers(past: str) -> list[object]:
        policy = make()
        policy.reset()
        replies: list[object] = []
        for round in rounds(policy, past, 4, 30):
            policy.observe(round)
            replies.append(depth_of(policy, 4))
            replies += [goes_on(policy, draft) for draft in growing(example, len(round.draft))]
        return replies

    for past in PASTS:
        first, second = played_twice(partial(answers, past))
        assert first == second, f"answers differ for the same rounds, after {past}"


def check_output_distribution_is_the_targets(make: Make) -> None:
    """With this policy the text has the target's distribution to 1e-12, over all outcomes.

    So no token is dropped once drawn, and only submitted tokens stop a draft.
    """
    target = TabularTarget(3)
    for kind, rule in itertools.product(("drawn", "mixed"), (Token(), Block())):
        setup = Setup(target, ChainDrafter(target, kind), rule, [0, 2], gamma=2)
        _assert_rounds_are_exact(make, setup, f"{kind} draft")
    small = TabularTarget(2)
    deep = Setup(small, ChainDrafter(small, "drawn"), Token(), [0, 1], gamma=8)
    assert_lossless(output_distribution(deep, make), deep, "a draft of up to eight tokens")


def check_several_rounds_and_trees(make: Make) -> None:
    """The same holds over several rounds, in which the policy learns, and for drafts of trees.

    The rounds have made-up times, so that a policy may measure them.
    """
    for kind in ("drawn", "mixed"):
        _assert_loop_is_exact(make, Token(), kind, 2, 4)
    for kind, vocab in (("distinct", 3), ("iid", 2), ("paths", 2)):
        target = TabularTarget(vocab)
        drafter = TreeDrafter(target, kind)
        setup = Setup(target, drafter, Traversal(), [0, 1], gamma=2, budget=4)
        _assert_rounds_are_exact(make, setup, f"{kind} tree")


def check_the_second_text_of_a_seed(make: Make) -> None:
    """The same holds for a second text with the seed of the first, whose rounds it has seen, in
    this run or in one before.
    """
    target = TabularTarget(2)
    setup = Setup(target, ChainDrafter(target, "drawn"), Token(), [0, 1], gamma=2)

    def play(chance: Chance, *, length: int, before: int) -> tuple[int, ...]:
        seed, policy = Seed(chance), _told_made_up_times(make)
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
    for kind, gamma, length in (("mixed", 2, 4), ("drawn", 3, 5), ("drawn", 2, 6)):
        _assert_loop_is_exact(make, Block(), kind, gamma, length)


def _assert_rounds_are_exact(make: Make, setup: Setup, case: str) -> None:
    """Raises AssertionError unless a round is exact, whatever rounds the policy has seen."""
    for past in PASTS[:4]:
        policy = make()
        policy.reset()
        for round in rounds(policy, past, setup.gamma, 12):
            policy.observe(round)
        probs = output_distribution(setup, partial(copy.deepcopy, policy))
        assert_lossless(probs, setup, f"after {past}, {case}")


def _assert_loop_is_exact(make: Make, rule: Verifier, kind: str, gamma: int, length: int) -> None:
    """Raises AssertionError unless texts over several rounds are exact."""
    target = TabularTarget(2)
    setup = Setup(target, ChainDrafter(target, kind), rule, [0, 1], gamma=gamma)
    probs = loop_distribution(setup, length, partial(_told_made_up_times, make))
    assert_lossless(probs, setup, f"{length} tokens, {kind} draft, gamma {gamma}")


def _told_made_up_times(make: Make) -> Policy:
    """Returns a policy that is told the same times whatever the clock says."""
    policy = make()
    observe = policy.observe

    def observe_made_up(round: Round) -> None:
        observe(replace(round, seconds=_seconds(round.drafted)))

    vars(policy)["observe"] = observe_made_up
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
        chance, more = SampledChance.seeded(number), partial(goes_on, policy)
        sheet = Sheet(SAMPLED, chance, 3, 0 if past == "silent" else depth, more=more)
        draft = draft_on(sheet, drafter, Context(Tokens([0, number % 3])))
        fully_accepted = past == "all accepted" or (past == "in turn" and number % 2 == 0)
        path = range(len(draft) if fully_accepted else 0)
        yield made_up_round(draft, path, _seconds(len(draft)))


CHECKS = (
    check_depth_is_within_gamma,
    check_the_same_rounds_give_the_same_answers,
    check_output_distribution_is_the_targets,
    check_several_rounds_and_trees,
)
THOROUGH = (check_many_rounds,)
"""Checks that may take minutes."""
