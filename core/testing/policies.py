"""Checks of a policy: each takes a callable that makes one, and raises AssertionError."""

import copy
import itertools
import random
from collections.abc import Callable, Iterator
from functools import partial

import torch

from outrider.contract.chance import SampledChance
from outrider.contract.context import Context, Tokens
from outrider.contract.draft import Draft
from outrider.contract.pen import Pen
from outrider.contract.policy import Policy
from outrider.contract.round import Round
from outrider.targets.tabular import TabularTarget
from outrider.testing.exact import Setup, output_distribution, target_distribution
from outrider.testing.stage import SAMPLED, ChainDrafter
from outrider.verifiers.block import Block
from outrider.verifiers.token import Token

Make = Callable[[], Policy]

TOLERANCE = 1e-12
PASTS = ("nothing", "all accepted", "all rejected", "in turn", "silent")
"""What the rounds before were like."""


def check_depth_is_within_gamma(make: Make) -> None:
    """The depth is a whole number from 0 to gamma, whatever the rounds before were like."""
    for past, gamma in itertools.product(PASTS, (1, 2, 5, 9)):
        policy = make()
        policy.reset()
        for round in rounds(policy, past, gamma, 30):
            policy.observe(round)
            depth = policy.depth(gamma)
            in_range = isinstance(depth, int) and 0 <= depth <= gamma
            assert in_range, f"depth {depth!r} of gamma {gamma}, after {past}"
        policy.reset()
        assert 0 <= policy.depth(gamma) <= gamma, (
            f"depth outside 0 to gamma after a reset, after {past}"
        )


def check_the_same_rounds_give_the_same_answers(make: Make) -> None:
    """The answers depend only on the rounds observed; global generators are left alone."""
    for past in PASTS:
        answers = []
        for noise in (1, 2):
            torch.manual_seed(noise)
            random.seed(noise)
            before = (torch.get_rng_state(), random.getstate())
            policy = make()
            policy.reset()
            replies: list[object] = []
            for round in rounds(policy, past, 4, 30):
                policy.observe(round)
                replies.append(policy.depth(4))
                replies += [policy.more(draft) for draft in _growing_drafts(round)]
            answers.append(replies)
            assert torch.equal(before[0], torch.get_rng_state()), "moved torch's global generator"
            assert before[1] == random.getstate(), "moved Python's global generator"
        assert answers[0] == answers[1], f"answers differ for the same rounds, after {past}"


def check_output_distribution_is_the_targets(make: Make) -> None:
    """With this policy the text has the target's distribution to 1e-12, over all outcomes.

    So no token is dropped once drawn, and only submitted tokens stop a draft.
    """
    target = TabularTarget(3)
    for past in PASTS[:4]:
        policy = make()
        policy.reset()
        for round in rounds(policy, past, 2, 12):
            policy.observe(round)
        for kind, rule in itertools.product(("drawn", "mixed"), (Token(), Block())):
            drafter = ChainDrafter(target, kind)
            setup = Setup(target, drafter, rule, [0, 2], gamma=2, sampling=SAMPLED)
            probs = output_distribution(setup, make_policy=partial(copy.deepcopy, policy))
            exact = target_distribution(target, [0, 2], 3, SAMPLED, rule)
            error = max(abs(probs.get(text, 0.0) - p) for text, p in exact.items())
            assert error <= TOLERANCE, (
                f"the text's distribution is off by {error:.1e} after {past}, {kind} draft"
            )


def rounds(policy: Policy, past: str, gamma: int, count: int) -> Iterator[Round]:
    """Yields rounds whose draft lengths the policy itself chose, with made-up outcomes and times.

    past: one of `PASTS`. count: how many rounds.
    """
    drafter = ChainDrafter(TabularTarget(3), "drawn")
    for number in range(0 if past == "nothing" else count):
        depth = policy.depth(gamma)
        pen = Pen(
            sampling=SAMPLED,
            chance=SampledChance.seeded(number),
            vocab_size=3,
            gamma=0 if past == "silent" else depth,
            more=policy.more,
        )
        drafter.propose(Context(Tokens([0, number % 3])), pen)
        draft = pen.finish()
        fully_accepted = past == "all accepted" or (past == "in turn" and number % 2 == 0)
        accepted = len(draft) if fully_accepted else 0
        seconds = {"draft": 0.002 * len(draft), "score": 0.03 + 0.004 * len(draft), "verify": 0.001}
        tokens = (*draft.tokens[:accepted], 0)
        yield Round(
            tokens=tokens,
            origins=(*("accepted",) * accepted, "bonus" if fully_accepted else "recovered"),
            pieces=("",) * len(tokens),
            draft=draft.tokens,
            parents=draft.parents,
            path=tuple(range(accepted)),
            drafted=len(draft),
            tested=accepted + (accepted < len(draft)),
            accepted=accepted,
            seconds=seconds,
        )


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
)
