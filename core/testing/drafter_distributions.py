"""Checks of a drafter's distributions: those it records, and those of the texts it leads to."""

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import torch

from outrider.base.errors import message_of
from outrider.contract.draft import Draft
from outrider.contract.drafter import Drafter
from outrider.contract.sampling import Sampling
from outrider.contract.target import Target
from outrider.contract.verifier import Verifier
from outrider.targets.tabular import TabularTarget
from outrider.testing.chi_square import assert_samples
from outrider.testing.conditionals import Conditionals
from outrider.testing.exact import (
    Setup,
    assert_equal,
    assert_lossless,
    loop_distribution,
    output_distribution,
    possible_drafts,
    round_distribution,
    target_distribution,
)
from outrider.testing.tiny_targets import (
    SAMPLED,
    VOCAB_SIZE,
    bound_target,
    draft_after,
    opened,
    same_draft,
    unbound_target,
)
from outrider.verifiers.sample_match import SampleMatch
from outrider.verifiers.token import Token
from outrider.verifiers.traversal import Traversal

Make = Callable[[], Drafter]

PROMPTS = ([0, 1, 2, 0, 1], [2, 2, 2, 2], [1])
PAIRS = ([0, 3], [1, 1], [2, 0], [3, 2], [3, 3])
LENGTHS = (1, 2, 3, 4, 5, 6, 8, 11, 15, 20, 30)
"""How many tokens the contexts have."""
TEXTS = 200
"""How many texts are sampled."""
NARROW = Sampling(temperature=0.7, top_k=2)
DEPTHS = (6, 8, 10)
"""How many tokens drafts have of which only the last draws are taken in every way."""


def check_tokens_follow_recorded_distributions(make: Make) -> None:
    """Tokens follow the distributions recorded for them, whatever was drawn before.

    All outcomes of all draws are taken, so this is exact: among the drafts that begin alike, the
    next token has the distribution that is recorded for it. Of drafts of six to ten tokens only
    the last draws are; no such draft may be likelier than it records.
    """
    drafter, target = opened(make)
    for prompt in (*PROMPTS, *PAIRS):
        _assert_honest(drafter, target, prompt, 2, 3)
    for prompt in PROMPTS:  # both of two siblings have children
        _assert_honest(drafter, target, prompt, 4, 5, sampling=NARROW)
    for depth in DEPTHS:
        _assert_honest(drafter, target, PROMPTS[0], depth, depth)


def check_long_contexts(make: Make) -> None:
    """The same holds after texts of up to thirty tokens, in which tokens and phrases repeat.

    (Fewer texts for a drafter that needs a model.)
    """
    cheap = isinstance(unbound_target(make()), TabularTarget)
    _check_contexts(make, LENGTHS if cheap else LENGTHS[4::3], 1)


def check_every_length(make: Make) -> None:
    """The same holds after every text of up to forty tokens, for drafts of two tokens."""
    _check_contexts(make, range(1, 41), 2)


def _check_contexts(make: Make, lengths: Iterable[int], gamma: int) -> None:
    drafter, target = opened(make)
    for length in lengths:
        _assert_honest(drafter, target, repetitive(length, VOCAB_SIZE), gamma, 2)


def check_other_vocabularies(make: Make) -> str | None:
    """The same holds for vocabularies of 3, 5 and 7 tokens, with the target's distribution of the
    text; a drafter that is made for one vocabulary fails at another, in its first draft.

    (Only 5 tokens for a drafter that needs a model.)
    """
    sizes = (3, 5, 7) if isinstance(unbound_target(make()), TabularTarget) else (5,)
    return _check_vocabularies(make, sizes, 2)


def check_large_vocabularies(make: Make) -> str | None:
    """The same holds for vocabularies of 2, 6, 11 and 16 tokens."""
    return _check_vocabularies(make, (2, 6, 11, 16), 12)


def _check_vocabularies(make: Make, sizes: Iterable[int], contexts: int) -> str | None:
    """Returns why a drafter fails at another vocabulary than `VOCAB_SIZE`, None if it drafts."""
    for vocab_size in sizes:
        if reason := refusal(make, vocab_size):
            return reason
        drafter, target = opened(make, vocab_size)
        for length in range(2, 2 + contexts):
            _assert_honest(drafter, target, repetitive(length, vocab_size), 1, 2)
        prompt = [vocab_size - 1, 0]
        setup = Setup(target, drafter, rule_for(drafter), prompt, gamma=1, budget=2)
        assert_lossless(output_distribution(setup), setup)
    return None


def refusal(make: Make, vocab_size: int) -> str | None:
    """Returns why a drafter fails in its first draft at a vocabulary, None if it writes one."""
    drafter = make()
    try:
        target = bound_target(drafter, vocab_size)
        draft_after(drafter, target, repetitive(2 * vocab_size, vocab_size), 2)
    except Exception as error:  # noqa: BLE001  a drafter that stops writes no wrong text
        line = message_of(error)
        return f"no draft for a vocabulary of {vocab_size}: {line or type(error).__name__}"
    return None


def repetitive(length: int, vocab_size: int) -> list[int]:
    """Returns a text in which every token comes up, and phrases of three repeat."""
    phrase = [position * position % vocab_size for position in range(3)]
    text = [*range(vocab_size), *phrase, vocab_size - 1, *phrase, *phrase]
    return [text[position % len(text)] for position in range(length)]


def _assert_honest(
    drafter: Drafter, target: Target, prompt: list[int], gamma: int, budget: int, **options: Any
) -> None:
    # The first draft reads the prompt, so that all others are written in the same way.
    draft_after(drafter, target, prompt, 1)
    nodes = budget if drafter.trees else None
    setup = Setup(target, drafter, Token(), prompt, gamma=gamma, budget=nodes, **options)
    if gamma in DEPTHS:
        some = itertools.islice(possible_drafts(setup, begun=gamma - 1), 40)
        _assert_no_likelier(some, prompt)
    else:
        _assert_recorded(possible_drafts(setup), prompt)


def check_sampled_texts_have_the_targets_distribution(make: Make) -> None:
    """Texts that the loop samples, each with its own chance, have the target's distribution, by a
    chi-square test with a fixed seed; a batch writes the texts that are written alone.
    """
    drafter, target = opened(make)
    rule, prompt = rule_for(drafter), PROMPTS[0]
    count = TEXTS if isinstance(target, TabularTarget) else TEXTS // 10
    setup = Setup(target, drafter, rule, prompt, gamma=2, budget=_budget(drafter))
    exact = target_distribution(target, prompt, 2, SAMPLED, rule)
    assert_samples(setup, exact, count, single=4, make=make)


def _assert_recorded(outcomes: Iterable[tuple[float, Draft]], prompt: Sequence[int]) -> None:
    """Raises AssertionError unless each token has the distribution that is recorded for it.

    outcomes: all drafts with their probabilities.
    """
    weights: dict[Any, dict[int, float]] = defaultdict(lambda: defaultdict(float))
    for p, draft in outcomes:
        for node, probs in enumerate(draft.probs):
            if probs is None:
                continue
            recorded = tuple(round(q, 9) for q in probs.tolist())
            before = (draft.tokens[:node], draft.parents[: node + 1])
            weights[recorded, before][draft.tokens[node]] += p
    for (recorded, (tokens, _)), drawn in weights.items():
        total = sum(drawn.values())
        for token, q in enumerate(recorded):
            p = drawn.get(token, 0.0) / total
            assert abs(p - q) <= 1e-8, (
                f"after {list(prompt)} and the draft {list(tokens)} it draws token {token} with"
                f" probability {p:.6f}: it records {q:.6f}"
            )


def _assert_no_likelier(outcomes: Iterable[tuple[float, Draft]], prompt: Sequence[int]) -> None:
    """Raises AssertionError if a draft is likelier than its distributions; see `_assert_recorded`.

    outcomes: some drafts with their probabilities.
    """
    drawn: dict[Any, float] = defaultdict(float)
    for p, draft in outcomes:
        pairs = zip(draft.tokens, draft.probs, strict=True)
        recorded = math.prod(float(probs[token]) for token, probs in pairs if probs is not None)
        drawn[draft.tokens, draft.parents, recorded] += p
    for (tokens, _, recorded), p in drawn.items():
        rates = f"with probability {p:.2e}: it records {recorded:.2e}"
        assert p <= recorded * (1 + 1e-6), f"after {list(prompt)} it draws {list(tokens)} {rates}"


def check_is_autoregressive_if_it_says_so(make: Make) -> None:
    """An `autoregressive` drafter gives a token the same distribution at every depth of a draft."""
    drafter, target = opened(make)
    for prompt, seed in itertools.product(PROMPTS, range(4)):
        draft = draft_after(drafter, target, prompt, 4, seed=seed)
        for depth, probs in enumerate(draft.probs):
            text = draft.tokens[:depth]
            first = draft_after(drafter, target, prompt, 1, text=text).probs[0]
            assert probs is not None and first is not None, "wrote a token that it did not draw"
            assert torch.allclose(probs, first, atol=1e-6), (
                f"token {depth + 1} of a draft has another distribution than the first one after"
                f" {[*prompt, *text]}"
            )


def check_output_distribution_is_the_targets(make: Make) -> None:
    """The text has the target's distribution, over all outcomes of a round and of the loop."""
    drafter, target = opened(make)
    rules: list[Verifier] = [SampleMatch(), Traversal()]
    if not drafter.trees:
        rules.append(Token())
    budget = _budget(drafter)
    # The target scores each text once, whatever the sampling and the rule.
    conditionals, after_one = Conditionals(target, [0, 2]), Conditionals(target, [1])
    for sampling in (SAMPLED, NARROW):
        setup = Setup(target, drafter, rules[0], [0, 2], gamma=2, sampling=sampling, budget=budget)
        # All of these rules are lossless, so one target distribution serves them all.
        of_round = conditionals.distribution(3, sampling, rules[0])
        of_loop = after_one.distribution(2, sampling, rules[0])
        drafts = list(possible_drafts(setup))
        for verifier in rules:
            setup = replace(setup, verifier=verifier)
            probs = round_distribution(setup, drafts, conditionals, True)
            assert_equal(probs, of_round)
        # How the text grows between rounds is the same for all of them, so the last one plays.
        assert_equal(loop_distribution(replace(setup, prompt=[1], gamma=1), 2), of_loop)


def check_the_source_is_part_of_the_context(make: Make) -> None:
    """With an encoder, a draft depends on source and text alone, and the text stays exact.

    (Not checked for a drafter that needs a model or its states.)
    """
    made, target = make(), TabularTarget(VOCAB_SIZE, encoder=True)
    made.bind(target)
    used = made.open()
    sources = ([0, 1, 2, 3, 1], [2, 1], [0, 1, 2, 3, 1])
    texts: tuple[list[int], ...] = ([], [1], [1, 2, 1, 0], [3, 1])
    for text, source in itertools.product(texts, sources):  # another source, the same text
        assert_as_new(make, used, target, source, text=text)
    setup = Setup(target, used, rule_for(used), [2, 0], gamma=1, budget=_budget(used))
    assert_lossless(loop_distribution(setup, 2), setup)


def assert_as_new(
    make: Make, used: Drafter, target: Target, prompt: Sequence[int], gamma: int = 4, **options: Any
) -> Draft:
    """Returns the draft of a used drafter; raises AssertionError unless a new one writes it too.

    options: those of `draft_after`.
    """
    new = make()
    new.bind(target)
    expected = draft_after(new.open(), target, prompt, gamma, **options)
    draft = draft_after(used, target, prompt, gamma, **options)
    after = f"{list(prompt)} and {options['text']}" if options else list(prompt)
    other = "the same from other odds" if draft.tokens == expected.tokens else expected.tokens
    assert same_draft(draft, expected), (
        f"after {after} it wrote {draft.tokens}, a new one {other}: something was left over from an"
        " earlier text or draft"
    )
    return draft


def rule_for(drafter: Drafter) -> Verifier:
    """Returns a lossless rule that takes the drafts of a drafter."""
    return Traversal() if drafter.trees else Token()


def _budget(drafter: Drafter) -> int | None:
    # Two siblings and a node below them: all outcomes of a larger tree would take minutes.
    return 3 if drafter.trees else None


CHECKS = (
    check_tokens_follow_recorded_distributions,
    check_long_contexts,
    check_other_vocabularies,
    check_output_distribution_is_the_targets,
    check_sampled_texts_have_the_targets_distribution,
)
THOROUGH = (check_every_length, check_large_vocabularies)
