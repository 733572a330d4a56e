"""Exact distributions: the probability of every text, summed over every branch of every decision."""

import itertools
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial

from outrider.contract.chance import Chance, EnumeratedChance
from outrider.contract.draft import Draft
from outrider.contract.drafter import Drafter
from outrider.contract.pen import Pen
from outrider.contract.policy import Fixed, Policy
from outrider.contract.sampling import Sampling
from outrider.contract.target import Target
from outrider.contract.verifier import Scores, Verifier
from outrider.decoding.decode import decode
from outrider.testing.stage import context_after

Distribution = dict[tuple[int, ...], float]
"""The probability of each text."""


def target_distribution(
    target: Target, prompt: Sequence[int], length: int, sampling: Sampling, ceiling: Verifier
) -> Distribution:
    """Returns what `ceiling` allows each text of `length` tokens after `prompt`.

    Of a lossless rule that is the target's distribution itself: the product of its conditionals.
    """
    allowed: Distribution = {(): 1.0}
    for _ in range(length):
        longer: Distribution = {}
        for text, weight in allowed.items():
            logits = target.open(prompt).score(Draft.chain(text))[-1:]
            row = ceiling.ceiling(Scores(logits, sampling))[0].tolist()
            for token, p in enumerate(row):
                longer[(*text, token)] = weight * p
        allowed = longer
    return allowed


def output_distribution(
    target: Target,
    drafter: Drafter,
    verifier: Verifier,
    prompt: Sequence[int],
    *,
    gamma: int,
    sampling: Sampling,
    budget: int | None = None,
    make_policy: Callable[[], Policy] = Fixed,
) -> Distribution:
    """Returns the distribution of gamma + 1 tokens after `prompt`: one round, then what it would take
    the rule without a draft to fill up.

    make_policy: makes the policy of how long to draft, one for each branch, with all that it
        has learned.

    The drafter must be bound to the target. One drafter serves every branch, so one that
    remembers an earlier branch is found out as well.
    """
    context = context_after(drafter, target, prompt)

    def write(chance: Chance) -> Draft:
        policy = make_policy()
        pen = Pen(
            sampling=sampling,
            chance=chance,
            vocab_size=target.vocab_size,
            gamma=policy.depth(gamma),
            budget=budget,
            more=policy.more,
        )
        drafter.propose_batch([(context, pen)])
        return pen.finish()

    blocks: Distribution = defaultdict(float)
    # A verdict depends on the draft alone, so each draft is written and scored once, however
    # many verdicts there are of it.
    for probability, draft in EnumeratedChance.outcomes(write):
        scores = Scores(target.open(prompt).score(draft), sampling)
        for p, verdict in EnumeratedChance.outcomes(partial(verifier.verify, draft, scores)):
            accepted = (draft.tokens[node] for node in verdict.accepted)
            blocks[*accepted, verdict.next_token] += probability * p
    probs: Distribution = defaultdict(float)
    for block, probability in blocks.items():
        rest = _continued(target, prompt, block, gamma + 1 - len(block), sampling)
        for text, p in rest.items():
            probs[(*block, *text)] += probability * p
    return probs


def loop_distribution(
    target: Target,
    drafter: Drafter,
    verifier: Verifier,
    prompt: Sequence[int],
    *,
    gamma: int,
    length: int,
    sampling: Sampling,
    budget: int | None = None,
    policy: Policy | None = None,
) -> Distribution:
    """Returns the distribution of `length` tokens of the whole loop, rollback and all its rounds."""

    def play(chance: Chance) -> tuple[int, ...]:
        rounds = decode(
            target,
            drafter,
            verifier,
            prompt,
            gamma=gamma,
            budget=budget,
            sampling=sampling,
            policy=policy,
            chance=chance,
            max_new_tokens=length,
        )
        return tuple(itertools.chain.from_iterable(round.tokens for round in rounds))

    probs: Distribution = defaultdict(float)
    for probability, text in EnumeratedChance.outcomes(play):
        probs[text] += probability
    return probs


def _continued(
    target: Target, prompt: Sequence[int], block: Sequence[int], length: int, sampling: Sampling
) -> Distribution:
    """Returns the distribution of `length` tokens after a prompt and a block."""
    probs: Distribution = {(): 1.0}
    for _ in range(length):
        probs = {
            (*text, token): weight * p
            for text, weight in probs.items()
            for token, p in enumerate(
                sampling.probs(target.open(prompt).score(Draft.chain([*block, *text]))[-1]).tolist()
            )
        }
    return probs
