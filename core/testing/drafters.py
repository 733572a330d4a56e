"""Checks of a drafter: each takes what makes one, and raises AssertionError."""

import itertools
import random
from collections.abc import Callable, Sequence
from typing import Any

import torch

from outrider.contract.context import Context, Tokens
from outrider.contract.draft import Draft
from outrider.contract.drafter import Drafter
from outrider.contract.sampling import Sampling
from outrider.contract.target import Target
from outrider.contract.verifier import Verifier
from outrider.decoding.decode import decode
from outrider.drafters.none import NoDraft
from outrider.runtime.cached_model import SOURCE
from outrider.targets.tabular import TabularTarget
from outrider.testing.chi_square import chi_square
from outrider.testing.exact import loop_distribution, output_distribution, target_distribution
from outrider.testing.stage import VOCAB_SIZE, context_after, play_draft, play_drafts, stage
from outrider.verifiers.sample_match import SampleMatch
from outrider.verifiers.token import Token
from outrider.verifiers.traversal import Traversal

Make = Callable[[], Drafter]

PROMPTS = ([0, 1, 2, 0, 1], [2, 2, 2, 2], [1])
SAMPLED = Sampling(temperature=1.0)
NARROW = Sampling(temperature=0.7, top_k=2)
TOLERANCE = 1e-12
QUANTILE = 1e-6
"""A chance that a right drafter fails the statistical checks; the seeds are fixed."""


def check_stays_within_gamma(make: Make) -> None:
    """A draft has at most gamma tokens in depth, all of the vocabulary, and may be empty."""
    drafter, target = _staged(make)
    for prompt, gamma in itertools.product(PROMPTS, (0, 1, 2, 5)):
        draft = _draft(drafter, target, prompt, gamma)
        assert gamma > 0 or len(draft) == 0, f"wrote {len(draft)} tokens where gamma is 0"
        assert draft.is_of(drafter.kind), f"wrote what is no {drafter.kind!r} draft"


def check_draws_only_from_chance(make: Make) -> None:
    """The same seed gives the same draft, and no global generator is read or moved."""
    drafts = []
    for noise in (1, 2):
        drafter, target = _staged(make)
        torch.manual_seed(noise)
        random.seed(noise)
        before = (torch.get_rng_state(), random.getstate())
        drafts.append([_draft(drafter, target, prompt, 5) for prompt in PROMPTS])
        assert torch.equal(before[0], torch.get_rng_state()), "moved torch's global generator"
        assert before[1] == random.getstate(), "moved Python's global generator"
    for first, second in zip(*drafts, strict=True):
        assert _same(first, second), "drafts differ though the seed is the same"


def check_depends_only_on_context(make: Make) -> None:
    """A drafter that has been used drafts as a fresh one, whatever it saw before; so does its fork."""
    used, target = _staged(make)
    history = (
        [0, 1, 2, 0, 1],
        [0, 1, 2, 0, 1, 3, 0],  # some tokens accepted
        [0, 1, 2, 0, 1, 3, 0, 2],  # none accepted
        [0, 1, 2, 3],  # an earlier place, another way on
        [3, 3, 1],  # another text
        [0, 1, 2, 0, 1, 3, 0, 2],
        [3],
    )
    for tokens in history:
        fresh = make()
        fresh.bind(target)
        right = _draft(fresh, target, tokens, 4)
        for drafter, who in ((used.fork(), "its fork"), (used, "it")):
            found = _draft(drafter, target, tokens, 4)
            assert _same(found, right), (
                f"after {tokens} {who} wrote {found.tokens}, a fresh one {right.tokens}:"
                " something was left over from an earlier text"
            )


def check_leaves_the_context_alone(make: Make) -> None:
    """The tokens and features of the context are what they were."""
    drafter, target = _staged(make)
    for prompt in PROMPTS:
        found = context_after(drafter, target, prompt)
        ids, source, shown = found.tokens[:], list(found.source or ()), found.features
        before = {name: rows.clone() for name, rows in shown.items()}
        given = found.source and Tokens(source)
        play_draft(drafter, target, Context(Tokens(ids), given, shown), gamma=4, sampling=SAMPLED)
        assert ids == found.tokens, f"changed the context from {found.tokens[:]} to {ids}"
        assert source == list(found.source or ()), f"changed the source to {source}"
        for name, rows in before.items():
            assert torch.equal(shown[name], rows), f"changed the {name} of the context"


def check_is_deterministic_when_greedy(make: Make) -> None:
    """At temperature 0 the draft does not depend on the seed."""
    drafter, target = _staged(make)
    for prompt in PROMPTS:
        drafts = [_draft(drafter, target, prompt, 5, Sampling(), seed) for seed in range(3)]
        assert all(_same(drafts[0], other) for other in drafts), "the seed changed a greedy draft"


def check_greedy_text_is_the_targets(make: Make) -> None:
    """At temperature 0 the text is plain greedy decoding, token for token."""
    drafter, target = _staged(make)
    for prompt in PROMPTS:
        texts = [
            [
                token
                for round in decode(target, each, SampleMatch(), prompt, gamma=4, max_new_tokens=24)
                for token in round.tokens
            ]
            for each in (NoDraft(), drafter)
        ]
        assert texts[0] == texts[1], f"wrote {texts[1]}, the target alone {texts[0]}"


def check_distributions_are_those_drawn_from(make: Make) -> None:
    """Tokens follow the distributions recorded for them, and one draw tells nothing of the next.

    The probability integral transform of each draw is uniform whatever the distribution, so draws
    of all contexts go into one chi-square of 16 bins, and pairs of neighbours in a draft into
    another of 4 x 4 bins.
    """
    drafter, target = _staged(make)
    blur = torch.Generator().manual_seed(6)
    bins, pairs = torch.zeros(16), torch.zeros(4, 4)
    prompts = itertools.product(range(4), repeat=3)
    contexts = [context_after(drafter, target, prompt[::-1]) for prompt in prompts]
    for seed in range(600):
        context = contexts[seed % len(contexts)]
        draft = play_draft(drafter, target, context, gamma=4, sampling=SAMPLED, seed=seed + 1000)
        before = None
        for token, probs, parent in zip(draft.tokens, draft.probs, draft.parents, strict=True):
            u = float(torch.rand((), generator=blur, dtype=torch.float64))
            if probs is not None:
                order = probs.argsort(descending=True, stable=True)
                rank = int((order == token).nonzero())
                u = float(probs[order[:rank]].sum() + u * probs[token])
                assert probs[token] > 0, f"token {token} has no probability under its distribution"
            u = min(u, 1 - 1e-9)
            bins[int(u * 16)] += 1
            if before is not None and parent >= 0:
                pairs[int(before * 4), int(u * 4)] += 1
            before = u
    for counts, what in ((bins, "draws"), (pairs.flatten(), "neighbouring draws")):
        survival = chi_square(counts, torch.full((len(counts),), 1 / len(counts)))
        assert survival > QUANTILE, (
            f"{what} do not follow the recorded distributions (p = {survival:.0e})"
        )


def check_batches_are_drafts_one_by_one(make: Make) -> None:
    """Many drafts at once are those that each context gets by itself."""
    text = [0, 1, 2, 0, 1, 3, 0, 2]
    prefixes = [text[:length] for length in range(3, len(text) + 1)]
    for texts, gamma in ((prefixes, 1), (list(PROMPTS), 4)):
        for sampling in (SAMPLED, Sampling()):
            drafter, target = _staged(make)
            contexts = [context_after(drafter, target, tokens) for tokens in texts]
            drafts = play_drafts(drafter, target, contexts, gamma=gamma, sampling=sampling)
            for seed, (tokens, draft) in enumerate(zip(texts, drafts, strict=True)):
                alone = _draft(drafter, target, tokens, gamma, sampling, seed)
                assert _same(draft, alone), (
                    f"after {tokens} it wrote {draft.tokens} in a batch, and {alone.tokens} alone"
                )


def check_is_autoregressive_if_it_says_so(make: Make) -> None:
    """Where a drafter says that it is autoregressive, the distribution of each token of a draft is that of
    a first token after the same text.
    """
    drafter, target = _staged(make)
    if not drafter.autoregressive or drafter.trees:
        return
    for prompt, seed in itertools.product(PROMPTS, range(4)):
        draft = _draft(drafter, target, prompt, 4, seed=seed)
        for depth, probs in enumerate(draft.probs):
            text = draft.tokens[:depth]
            first = _draft(drafter, target, prompt, 1, text=text).probs[0]
            assert probs is not None and first is not None, "wrote a token that it did not draw"
            assert torch.allclose(probs, first, atol=1e-6), (
                f"token {depth + 1} of a draft has another distribution than the first one after"
                f" {[*prompt, *text]}"
            )


def check_output_distribution_is_the_targets(make: Make) -> None:
    """The distribution of the text is exactly the target's, for every branch of a round and of the loop."""
    drafter, target = _staged(make)
    rules: list[Verifier] = [SampleMatch(), Traversal()]
    if not drafter.trees:
        rules.append(Token())
    budget = _budget(drafter)
    for sampling in (SAMPLED, NARROW):
        # All of these rules are lossless, so one ceiling serves them all.
        of_round = target_distribution(target, [0, 2], 3, sampling, rules[0])
        of_loop = target_distribution(target, [1], 2, sampling, rules[0])
        for verifier in rules:
            probs = output_distribution(
                target, drafter, verifier, [0, 2], gamma=2, sampling=sampling, budget=budget
            )
            _agree(probs, of_round)
            probs = loop_distribution(
                target, drafter, verifier, [1], gamma=1, length=2, sampling=sampling, budget=budget
            )
            _agree(probs, of_loop)


def check_the_source_is_part_of_the_context(make: Make) -> None:
    """Where an encoder reads the prompt, a draft depends on it and the text alone, and the distribution of
    the text is exactly the target's. (Not for a drafter that needs a model or its states.)
    """
    used, target = make(), TabularTarget(VOCAB_SIZE, encoder=True)
    if not used.needs <= {SOURCE}:
        return
    used.bind(target)
    sources = ([0, 1, 2, 3, 1], [2, 1], [0, 1, 2, 3, 1])
    texts: tuple[list[int], ...] = ([], [1], [1, 2, 1, 0], [3, 1])
    for text, source in itertools.product(texts, sources):  # another source, the same text
        fresh = make()
        fresh.bind(target)
        ours, theirs = (_draft(each, target, source, 4, text=text) for each in (used, fresh))
        assert _same(ours, theirs), (
            f"after {text} of the source {source} it wrote {ours.tokens}, a fresh one"
            f" {theirs.tokens}: something was left over from an earlier source"
        )
    rule: Verifier = Traversal() if used.trees else Token()
    budget = _budget(used)
    probs = loop_distribution(
        target, used, rule, [2, 0], gamma=1, length=2, sampling=SAMPLED, budget=budget
    )
    _agree(probs, target_distribution(target, [2, 0], 2, SAMPLED, rule))


def _agree(probs: dict[Any, float], exact: dict[Any, float]) -> None:
    worst = max(exact.keys() | probs.keys(), key=lambda text: abs(probs.get(text, 0) - exact[text]))
    off = abs(probs.get(worst, 0) - exact[worst])
    assert off <= TOLERANCE, (
        f"text {worst} comes out with probability {probs.get(worst, 0):.6f}: the target's is"
        f" {exact[worst]:.6f} (off by {off:.1e})"
    )


def _staged(make: Make) -> tuple[Drafter, Target]:
    drafter = make()
    return drafter, stage(drafter)


def _budget(drafter: Drafter) -> int | None:
    # Two siblings and one below them: every branch of a larger tree would take minutes.
    return 3 if drafter.trees else None


def _draft(
    drafter: Drafter,
    target: Target,
    tokens: Sequence[int],
    gamma: int,
    sampling: Sampling = SAMPLED,
    seed: int = 0,
    text: Sequence[int] = (),
) -> Draft:
    context = context_after(drafter, target, tokens, text)
    return play_draft(drafter, target, context, gamma=gamma, sampling=sampling, seed=seed)


def _same(one: Draft, other: Draft) -> bool:
    if (one.tokens, one.parents) != (other.tokens, other.parents):
        return False
    return all(
        (p is None and q is None) or (p is not None and q is not None and torch.allclose(p, q))
        for p, q in zip(one.probs, other.probs, strict=True)
    )


CHECKS = (
    check_stays_within_gamma,
    check_draws_only_from_chance,
    check_depends_only_on_context,
    check_leaves_the_context_alone,
    check_is_deterministic_when_greedy,
    check_greedy_text_is_the_targets,
    check_distributions_are_those_drawn_from,
    check_batches_are_drafts_one_by_one,
    check_is_autoregressive_if_it_says_so,
    check_output_distribution_is_the_targets,
    check_the_source_is_part_of_the_context,
)
