"""Checks of a drafter's distributions: those it records, and those of the texts it leads to."""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace

import torch

from outrider.contract.draft import Draft
from outrider.contract.drafter import Drafter
from outrider.contract.sampling import Sampling
from outrider.contract.verifier import Verifier
from outrider.runtime.cached_model import SOURCE
from outrider.targets.tabular import TabularTarget
from outrider.testing.chi_square import SIGNIFICANCE, chi_square
from outrider.testing.exact import (
    Distribution,
    Setup,
    loop_distribution,
    output_distribution,
    target_distribution,
)
from outrider.testing.stage import (
    SAMPLED,
    VOCAB_SIZE,
    context_after,
    draft_after,
    play_draft,
    same_draft,
    stage,
)
from outrider.verifiers.sample_match import SampleMatch
from outrider.verifiers.token import Token
from outrider.verifiers.traversal import Traversal

Make = Callable[[], Drafter]

PROMPTS = ([0, 1, 2, 0, 1], [2, 2, 2, 2], [1])
NARROW = Sampling(temperature=0.7, top_k=2)
TOLERANCE = 1e-12


def check_tokens_follow_recorded_distributions(make: Make) -> None:
    """Tokens follow the distributions recorded for them, and draws do not depend on each other.

    The probability integral transform of a draw is uniform whatever its distribution, so the draws
    of all contexts share one chi-square test of 16 bins, and neighbours in a draft another one of
    4 x 4 bins.
    """
    drafter = make()
    target = stage(drafter)
    blur = torch.Generator().manual_seed(6)
    bins, pairs = torch.zeros(16), torch.zeros(4, 4)
    prompts = itertools.product(range(4), repeat=3)
    contexts = [context_after(drafter, target, prompt) for prompt in prompts]
    for seed in range(600):
        context = contexts[seed % len(contexts)]
        draft = play_draft(drafter, target, context, gamma=4, sampling=SAMPLED, seed=seed + 1000)
        before = None
        for u, parent in zip(_transforms(draft, blur), draft.parents, strict=True):
            bins[int(u * 16)] += 1
            if before is not None and parent >= 0:
                pairs[int(before * 4), int(u * 4)] += 1
            before = u
    for counts, kind in ((bins, "draws"), (pairs.flatten(), "neighbouring draws")):
        p = chi_square(counts, torch.full((len(counts),), 1 / len(counts)))
        assert p > SIGNIFICANCE, f"{kind} do not follow the recorded distributions (p = {p:.0e})"


def check_is_autoregressive_if_it_says_so(make: Make) -> None:
    """An `autoregressive` drafter gives a token the same distribution at every depth of a draft."""
    drafter = make()
    target = stage(drafter)
    if not drafter.autoregressive or drafter.trees:
        return
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
    drafter = make()
    target = stage(drafter)
    rules: list[Verifier] = [SampleMatch(), Traversal()]
    if not drafter.trees:
        rules.append(Token())
    budget = _budget(drafter)
    for sampling in (SAMPLED, NARROW):
        # All of these rules are lossless, so one target distribution serves them all.
        of_round = target_distribution(target, [0, 2], 3, sampling, rules[0])
        of_loop = target_distribution(target, [1], 2, sampling, rules[0])
        for verifier in rules:
            setup = Setup(
                target, drafter, verifier, [0, 2], gamma=2, sampling=sampling, budget=budget
            )
            _assert_equal(output_distribution(setup), of_round)
            setup = replace(setup, prompt=[1], gamma=1)
            _assert_equal(loop_distribution(setup, 2), of_loop)


def check_the_source_is_part_of_the_context(make: Make) -> None:
    """With an encoder, a draft depends on source and text alone, and the text stays exact.

    (Not checked for a drafter that needs a model or its states.)
    """
    used, target = make(), TabularTarget(VOCAB_SIZE, encoder=True)
    if not used.needs <= {SOURCE}:
        return
    used.bind(target)
    sources = ([0, 1, 2, 3, 1], [2, 1], [0, 1, 2, 3, 1])
    texts: tuple[list[int], ...] = ([], [1], [1, 2, 1, 0], [3, 1])
    for text, source in itertools.product(texts, sources):  # another source, the same text
        new = make()
        new.bind(target)
        draft, expected = (draft_after(part, target, source, 4, text=text) for part in (used, new))
        assert same_draft(draft, expected), (
            f"after {text} of the source {source} it wrote {draft.tokens}, a new one"
            f" {expected.tokens}: something was left over from an earlier source"
        )
    rule: Verifier = Traversal() if used.trees else Token()
    setup = Setup(target, used, rule, [2, 0], gamma=1, sampling=SAMPLED, budget=_budget(used))
    exact = target_distribution(target, [2, 0], 2, SAMPLED, rule)
    _assert_equal(loop_distribution(setup, 2), exact)


def _transforms(draft: Draft, blur: torch.Generator) -> Iterator[float]:
    """Yields the probability integral transform of each token of a draft, below 1.

    Tokens are ranked by falling probability. A token that was written gets a uniform number.
    """
    for token, probs in zip(draft.tokens, draft.probs, strict=True):
        u = float(torch.rand((), generator=blur, dtype=torch.float64))
        if probs is not None:
            order = probs.argsort(descending=True, stable=True)
            rank = int((order == token).nonzero())
            u = float(probs[order[:rank]].sum() + u * probs[token])
            assert probs[token] > 0, f"token {token} has no probability under its distribution"
        yield min(u, 1 - 1e-9)


def _assert_equal(probs: Distribution, exact: Distribution) -> None:
    """Raises AssertionError unless a distribution of texts is the exact one, to 1e-12."""
    worst = max(exact.keys() | probs.keys(), key=lambda text: abs(probs.get(text, 0) - exact[text]))
    error = abs(probs.get(worst, 0) - exact[worst])
    assert error <= TOLERANCE, (
        f"text {worst} comes out with probability {probs.get(worst, 0):.6f}: the target's is"
        f" {exact[worst]:.6f} (off by {error:.1e})"
    )


def _budget(drafter: Drafter) -> int | None:
    # Two siblings and a node below them: all outcomes of a larger tree would take minutes.
    return 3 if drafter.trees else None
