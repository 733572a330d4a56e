"""Exact distributions: the probability of every text, summed over all outcomes of all decisions."""

import itertools
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import final

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


@final
@dataclass(frozen=True, slots=True)
class Setup:
    """What is put to the test: a target, a drafter and a rule, after one prompt.

    The drafter must be bound to the target. One drafter serves all outcomes, so one that carries
    something over from an earlier outcome gives itself away.

    gamma: the depth of a draft.
    budget: the number of nodes of a draft. Defaults to gamma.
    """

    target: Target
    drafter: Drafter
    verifier: Verifier
    prompt: Sequence[int]
    _: KW_ONLY
    gamma: int
    sampling: Sampling
    budget: int | None = None


def target_distribution(
    target: Target, prompt: Sequence[int], length: int, sampling: Sampling, ceiling: Verifier
) -> Distribution:
    """Returns the highest probability that a rule allows each text of `length` tokens.

    For a lossless rule that is the target's distribution: the product of its conditionals.

    ceiling: the rule.
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


def output_distribution(setup: Setup, make_policy: Callable[[], Policy] = Fixed) -> Distribution:
    """Returns the distribution of the next gamma + 1 tokens: one round, filled up by the target.

    make_policy: makes the policy, a new one for each outcome, with all that it has learned.
    """
    context = context_after(setup.drafter, setup.target, setup.prompt)

    def write(chance: Chance) -> Draft:
        policy = make_policy()
        pen = Pen(
            sampling=setup.sampling,
            chance=chance,
            vocab_size=setup.target.vocab_size,
            gamma=policy.depth(setup.gamma),
            budget=setup.budget,
            more=policy.more,
            start=0 if setup.verifier.coupled else None,
        )
        setup.drafter.propose_batch([(context, pen)])
        return pen.finish()

    blocks: Distribution = defaultdict(float)
    if setup.verifier.coupled:  # the verdict shares its noise with the draft

        def play(chance: Chance) -> tuple[int, ...]:
            draft = write(chance)
            return _block(setup, draft, _scores(setup, draft), chance)

        blocks.update(_summed(play))
        return _completed(setup, blocks)
    # A verdict depends on the draft alone, so each draft is written and scored only once, however
    # many verdicts it can get.
    for p_draft, draft in EnumeratedChance.outcomes(write):
        verify = partial(_block, setup, draft, _scores(setup, draft))
        for p_verdict, block in EnumeratedChance.outcomes(verify):
            blocks[block] += p_draft * p_verdict
    return _completed(setup, blocks)


def _scores(setup: Setup, draft: Draft) -> Scores:
    return Scores(setup.target.open(setup.prompt).score(draft), setup.sampling)


def _block(setup: Setup, draft: Draft, scores: Scores, chance: Chance) -> tuple[int, ...]:
    """Returns the tokens that a round adds to the text."""
    verdict = setup.verifier.verify(draft, scores, chance)
    return (*(draft.tokens[node] for node in verdict.accepted), verdict.next_token)


def _completed(setup: Setup, blocks: Distribution) -> Distribution:
    """Returns the distribution of gamma + 1 tokens, given that of the tokens of a round."""
    probs: Distribution = defaultdict(float)
    for block, probability in blocks.items():
        for text, p in _filled_up(setup, block).items():
            probs[(*block, *text)] += probability * p
    return probs


def loop_distribution(setup: Setup, length: int, policy: Policy | None = None) -> Distribution:
    """Returns the distribution of the first `length` tokens of the loop, over all its rounds."""

    def play(chance: Chance) -> tuple[int, ...]:
        rounds = decode(
            setup.target,
            setup.drafter,
            setup.verifier,
            setup.prompt,
            gamma=setup.gamma,
            budget=setup.budget,
            sampling=setup.sampling,
            policy=policy,
            chance=chance,
            max_new_tokens=length,
        )
        return tuple(itertools.chain.from_iterable(round.tokens for round in rounds))

    return _summed(play)


def _summed(play: Callable[[Chance], tuple[int, ...]]) -> Distribution:
    """Returns the distribution of what `play` returns, over all outcomes of its decisions."""
    probs: Distribution = defaultdict(float)
    for probability, text in EnumeratedChance.outcomes(play):
        probs[text] += probability
    return probs


def _filled_up(setup: Setup, block: Sequence[int]) -> Distribution:
    """Returns the target's distribution of the tokens after a block, up to gamma + 1 in all."""
    target, sampling = setup.target, setup.sampling
    probs: Distribution = {(): 1.0}
    for _ in range(setup.gamma + 1 - len(block)):
        longer: Distribution = {}
        for text, weight in probs.items():
            logits = target.open(setup.prompt).score(Draft.chain([*block, *text]))[-1]
            for token, p in enumerate(sampling.probs(logits).tolist()):
                longer[(*text, token)] = weight * p
        probs = longer
    return probs
