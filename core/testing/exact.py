"""Exact distributions: the probability of every text, summed over all outcomes of all decisions."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import Any, final

from outrider.base.errors import PluginError
from outrider.contract.chance import Chance, Noise, SampledChance
from outrider.contract.draft import Draft, Verdict
from outrider.contract.drafter import Drafter
from outrider.contract.pen import Pen
from outrider.contract.policy import Fixed, Policy
from outrider.contract.sampling import Sampling
from outrider.contract.sheet import Sheet
from outrider.contract.target import Target
from outrider.contract.verifier import Scores, Verifier
from outrider.decoding import calls
from outrider.decoding.calls import depth_of, goes_on
from outrider.decoding.decode import decode
from outrider.decoding.kinds import violation
from outrider.testing.conditionals import Conditionals, Distribution, Text
from outrider.testing.enumerated import EnumeratedChance
from outrider.testing.tiny_targets import SAMPLED, context_after

TOLERANCE = 1e-12
"""How far rounding may drive apart a probability from the exact one."""


@final
@dataclass(frozen=True, slots=True)
class Setup:
    """What is put to the test: a target, a drafter and a rule, after one prompt.

    The drafter must be bound to the target. One drafter serves all outcomes, so one that carries
    something over from an earlier outcome gives itself away.

    gamma: the depth of a draft.
    sampling: Defaults to temperature 1.
    budget: the number of nodes of a draft. Defaults to gamma.
    earlier: the prompts of texts that ended before, for a drafter that remembers them. They are
        written with chances of their own.
    """

    target: Target
    drafter: Drafter
    verifier: Verifier
    prompt: Sequence[int]
    _: KW_ONLY
    gamma: int
    sampling: Sampling = SAMPLED
    budget: int | None = None
    earlier: Sequence[Sequence[int]] = ()


def target_distribution(
    target: Target, prompt: Sequence[int], length: int, sampling: Sampling, ceiling: Verifier
) -> Distribution:
    """Returns the highest probability that a rule allows each text of `length` tokens.

    For a lossless rule that is the target's distribution: the product of its conditionals.

    ceiling: the rule.
    """
    return Conditionals(target, prompt).distribution(length, sampling, ceiling)


def possible_drafts(
    setup: Setup, make_policy: Callable[[], Policy] = Fixed, begun: int = 0
) -> Iterator[tuple[float, Draft]]:
    """Yields every draft that can follow the prompt, with its probability.

    make_policy: makes the policy, a new one for each outcome, with all that it has learned.
    begun: how many tokens are drawn in one way alone.
    """
    return EnumeratedChance.outcomes(_writer(setup, make_policy), begun)


def _writer(setup: Setup, make_policy: Callable[[], Policy]) -> Callable[[Chance], Draft]:
    """Returns the function that writes the draft after the prompt."""
    drafter = setup.drafter.open()
    context = context_after(drafter, setup.target, setup.prompt)
    noise = Noise((), setup.verifier.window) if setup.verifier.coupled else None

    def write(chance: Chance) -> Draft:
        policy = make_policy()
        sheet = Sheet(
            setup.sampling,
            chance,
            setup.target.vocab_size,
            depth_of(policy, setup.gamma),
            budget=setup.budget,
            more=partial(goes_on, policy),
            noise=noise,
        )
        drafter.propose_batch([(context, Pen(sheet))])
        draft = sheet.finish()
        if reason := violation(draft, drafter.kind):  # before a rule is blamed for it
            raise AssertionError(f"says kind={drafter.kind!r}, but {reason}")
        return draft

    return write


def output_distribution(
    setup: Setup, make_policy: Callable[[], Policy] = Fixed, *, whole: bool = True
) -> Distribution:
    """Returns the distribution of the next gamma + 1 tokens: one round, filled up by the target.

    make_policy: as for `possible_drafts`.
    whole: fill up every text. Otherwise, a text ends where no round goes on with it, so that a
        draft may be deep: all that follows is the target's own.
    """
    setup.verifier.bind(setup.target)
    conditionals = Conditionals(setup.target, setup.prompt)
    if not setup.verifier.coupled:
        return round_distribution(setup, possible_drafts(setup, make_policy), conditionals, whole)
    write = _writer(setup, make_policy)

    def play(chance: Chance) -> tuple[int, ...]:  # the verdict shares its noise with the draft
        draft = write(chance)
        scores = conditionals.scores(draft, setup.sampling, setup.verifier)
        return _block(setup.verifier, draft, scores, chance)

    return _filled_up(setup, distribution_of(play), conditionals, whole)


def round_distribution(
    setup: Setup, drafts: Iterable[tuple[float, Draft]], conditionals: Conditionals, whole: bool
) -> Distribution:
    """Returns the output distribution of a setup whose possible drafts are known.

    A verdict depends on the draft alone, so the same drafts serve every rule that is not coupled.

    conditionals: those of the setup's target after its prompt.
    whole: as for `output_distribution`.
    """
    setup.verifier.bind(setup.target)
    blocks: Distribution = defaultdict(float)
    for p_draft, draft in drafts:
        scores = conditionals.scores(draft, setup.sampling, setup.verifier)
        verify = partial(_block, setup.verifier, draft, scores)
        for p_verdict, block in EnumeratedChance.outcomes(verify):
            blocks[block] += p_draft * p_verdict
    return _filled_up(setup, blocks, conditionals, whole)


def _block(verifier: Verifier, draft: Draft, scores: Scores, chance: Chance) -> tuple[int, ...]:
    """Returns the tokens that a round adds to the text."""
    verdict = verdict_of(verifier, draft, scores, chance)
    return (*(draft.tokens[node] for node in verdict.accepted), verdict.next_token)


def verdict_of(verifier: Verifier, draft: Draft, scores: Scores, chance: Chance) -> Verdict:
    """Returns the verdict of a rule in a new text; raises AssertionError if it is none."""
    try:
        return calls.verdict_of(calls.opened_rule(verifier), draft, scores, chance)
    except PluginError as error:
        if error.part is None:  # the rule was refused something that it asked for
            raise
        raise AssertionError(str(error)) from error


def _filled_up(
    setup: Setup, blocks: Distribution, conditionals: Conditionals, whole: bool
) -> Distribution:
    """Returns the distribution of texts, given that of the tokens of a round."""
    begun = {block[:known] for block in blocks for known in range(len(block))}
    probs = defaultdict(float, blocks)
    for length in range(setup.gamma + 1):
        for text in [text for text in probs if len(text) == length and (whole or text in begun)]:
            p = probs.pop(text)
            row = setup.sampling.probs(conditionals.after(text)).tolist()
            for token, share in enumerate(row):
                probs[*text, token] += p * share
    return probs


def loop_distribution(
    setup: Setup, length: int, make_policy: Callable[[], Policy] = Fixed
) -> Distribution:
    """Returns the distribution of the first `length` tokens of the loop, over all its rounds.

    make_policy: as for `possible_drafts`. Its answers may not depend on the clock.
    """

    def play(chance: Chance) -> Text:
        setup.drafter.forget()  # so that each replay begins with the same memory
        for number, prompt in enumerate(setup.earlier):
            before = replace(setup, prompt=prompt)
            loop_text(before, length, SampledChance.seeded(0, number), policy=make_policy())
        return loop_text(setup, length, chance, policy=make_policy())

    return distribution_of(play)


def loop_text(setup: Setup, length: int, chance: Chance | None = None, **options: Any) -> Text:
    """Returns the first `length` tokens that the loop writes.

    options: others of `outrider.decode`.
    """
    rounds = decode(
        setup.target,
        setup.drafter,
        setup.verifier,
        setup.prompt,
        gamma=setup.gamma,
        budget=setup.budget,
        sampling=setup.sampling,
        chance=chance,
        max_new_tokens=length,
        **options,
    )
    return tuple(token for round in rounds for token in round.tokens)


def distribution_of(play: Callable[[Chance], Text]) -> Distribution:
    """Returns the distribution of what `play` returns, over all outcomes of its decisions."""
    probs: Distribution = defaultdict(float)
    for probability, text in EnumeratedChance.outcomes(play):
        probs[text] += probability
    return probs


def assert_equal(probs: Distribution, exact: Distribution, case: str = "") -> None:
    """Raises AssertionError unless a distribution of texts is the exact one, to 1e-12."""
    worst = max(exact.keys() | probs.keys(), key=lambda text: abs(probs.get(text, 0) - exact[text]))
    error = abs(probs.get(worst, 0) - exact[worst])
    assert error <= TOLERANCE, (
        f"text {worst} comes out with probability {probs.get(worst, 0):.6f}: the target's is"
        f" {exact[worst]:.6f} (off by {error:.1e}{case and f', {case}'})"
    )


def assert_lossless(probs: Distribution, setup: Setup, case: str = "") -> None:
    """Raises AssertionError unless texts of one length have the target's distribution, to 1e-12."""
    length, rule = max(map(len, probs)), setup.verifier
    exact = target_distribution(setup.target, setup.prompt, length, setup.sampling, rule)
    assert_equal(probs, exact, case)
