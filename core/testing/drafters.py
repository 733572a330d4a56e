"""Checks of a drafter: each takes a callable that makes one, and raises AssertionError."""

import itertools
import random
from collections.abc import Callable
from dataclasses import replace

import torch

from outrider.contract.chance import SampledChance
from outrider.contract.context import Tokens
from outrider.contract.draft import KINDS, Draft, Verdict
from outrider.contract.drafter import Drafter
from outrider.contract.sampling import Sampling
from outrider.contract.sheet import Sheet
from outrider.decoding.kinds import violation
from outrider.targets.tabular import TabularTarget
from outrider.testing.drafter_distributions import NARROW, PROMPTS, assert_as_new
from outrider.testing.exact import Setup, loop_text
from outrider.testing.generators import played_twice
from outrider.testing.target_texts import assert_resumed
from outrider.testing.tiny_targets import (
    SAMPLED,
    VOCAB_SIZE,
    bound_target,
    context_after,
    draft_after,
    draft_on,
    opened,
    same_draft,
    unbound_target,
    write_draft,
    write_drafts,
)
from outrider.verifiers.sample_match import SampleMatch

Make = Callable[[], Drafter]

SAME = 1e-6
"""How far, in total variation, rounding may drive apart two distributions of one text."""


def check_stays_within_gamma(make: Make) -> None:
    """A draft is at most gamma tokens deep, and holds only ids of the vocabulary."""
    drafter, target = opened(make)
    for prompt, gamma in itertools.product(PROMPTS, (0, 1, 2, 5)):
        draft = draft_after(drafter, target, prompt, gamma)
        assert gamma > 0 or len(draft) == 0, f"wrote {len(draft)} tokens where gamma is 0"


def check_siblings_are_of_the_declared_kind(make: Make) -> None:
    """Siblings come about as the drafter's kind says, by the pen's record of how it wrote them."""
    drafter, target = opened(make)
    assert drafter.kind in KINDS, f"kind={drafter.kind!r}: expected one of {', '.join(KINDS)}"
    contexts = [context_after(drafter, target, prompt) for prompt in PROMPTS]
    for context, sampling in itertools.product(contexts, (SAMPLED, NARROW, Sampling())):
        # Tokens that are drawn twice show whether equal texts go on equally.
        for seed in range(12 if drafter.trees else 1):
            draft = write_draft(drafter, target, context, gamma=3, sampling=sampling, seed=seed)
            reason = violation(draft, drafter.kind, SAME)
            assert reason is None, f"says kind={drafter.kind!r}, but {reason}"


def check_paths_are_of_one_length(make: Make) -> None:
    """All paths of a draft of "paths" have one length, wherever the budget ends the draft."""
    drafter, target = opened(make)
    context = context_after(drafter, target, PROMPTS[0])
    for budget, sampling in itertools.product(range(1, 8), (SAMPLED, Sampling())):
        chance = SampledChance.seeded(budget)
        sheet = Sheet(sampling, chance, target.vocab_size, 3, budget=budget)
        draft = draft_on(sheet, drafter, context)
        leaves = (node for node in range(len(draft)) if not draft.children(node))
        lengths = sorted({len(draft.path(node)) for node in leaves})
        assert len(lengths) <= 1, f"with a budget of {budget}, it wrote paths of {lengths} tokens"


def check_draws_only_from_chance(make: Make) -> None:
    """The same seed gives the same draft; global generators are neither read nor moved."""
    parts = iter([opened(make), opened(make)])

    def drafts() -> list[Draft]:
        drafter, target = next(parts)
        return [draft_after(drafter, target, prompt, 5) for prompt in PROMPTS]

    for first, second in zip(*played_twice(drafts), strict=True):
        assert same_draft(first, second), "drafts differ though the seed is the same"


def check_depends_only_on_context(make: Make) -> None:
    """A used drafter, and one that it opens, draft as a new one, whatever texts came before."""
    used, target = opened(make)
    alone = draft_after(opened(make)[0], target, [3], 3)
    history = (
        [0, 1, 2, 0, 1],
        [0, 1, 2, 0, 1, 3, 0],  # some tokens accepted
        [0, 1, 2, 0, 1, 3, 0, 2],  # none accepted
        [0, 1, 2, 3],  # back to an earlier position, then another token
        [3, 3, 1],  # another text
        [0, 1, 2, 0, 1, 3, 0, 2],
        [3],
    )
    for tokens in history:
        for drafter in (used.open(), used):
            assert_as_new(make, drafter, target, tokens)
    after_others = draft_after(opened(make)[0], target, [3], 3)
    assert same_draft(after_others, alone), (
        f"after [3] a new one wrote {after_others.tokens} once others had drafted, {alone.tokens}"
        " before: instances share state, such as an attribute of the class"
    )


def check_goes_back_to_a_shorter_text(make: Make) -> None:
    """A drafter that has drafted after a text drafts as a new one after the same text without its
    last tokens, with others in their place, and with others before these; another text that it
    opened changes nothing.

    (After fewer texts for a drafter that needs a model.)
    """
    generator = random.Random(0)
    cheap = isinstance(unbound_target(make()), TabularTarget)
    for length in range(4, 34) if cheap else range(4, 10, 2):
        phrase = generator.choices(range(VOCAB_SIZE), k=3)
        text = [*phrase, *generator.choices(range(VOCAB_SIZE), k=length), *phrase, *phrase]
        for dropped in (1, 2, 5, 12) if cheap else (2,):
            used, target = opened(make)
            other = used.open()
            draft_after(used, target, text, 4)
            moved = [(token + 1) % VOCAB_SIZE for token in text]
            shorter = text[:-dropped]
            other_end = [*shorter, *moved[-dropped:][:2]]
            edited = [*moved[:-4], *other_end[-4:]]
            for tokens in (shorter, other_end, edited, edited[::-1]):
                if other is not used:
                    draft_after(other, target, text[::-1], 4)
                assert_as_new(make, used, target, tokens)


def check_follows_what_was_accepted(make: Make) -> None:
    """Whatever was accepted of its drafts, all, some or none of up to six tokens, a drafter drafts
    as a new one after the same text.

    (Fewer rounds for a drafter that needs a model.)
    """
    used, target = opened(make)
    gammas = (6, 1, 3) if isinstance(target, TabularTarget) else (6,)
    text = list[int]()
    for gamma, share in itertools.product(gammas, (1, 1, 0, 1, 0.5)):
        draft = assert_as_new(make, used, target, PROMPTS[0], gamma, text=text, seed=len(text))
        path = draft.path(len(draft) - 1)
        accepted = [draft.tokens[node] for node in path[: int(share * len(path))]]
        text += [*accepted, len(text) % VOCAB_SIZE]


def check_leaves_the_context_alone(make: Make) -> None:
    """Drafting and observing change neither tokens nor source nor features of the context."""
    drafter, target = opened(make)
    for prompt in PROMPTS:
        original = context_after(drafter, target, prompt)
        ids, source, features = original.tokens[:], list(original.source or ()), original.features
        before = {name: rows.clone() for name, rows in features.items()}
        context = replace(original, tokens=Tokens(ids), source=original.source and Tokens(source))
        draft = write_draft(drafter, target, context, gamma=4)
        logits = torch.zeros(1 + len(draft), target.vocab_size)
        drafter.observe(context, draft, logits, Verdict((), 0))
        assert ids == original.tokens, f"changed the context from {original.tokens[:]} to {ids}"
        assert source == list(original.source or ()), f"changed the source to {source}"
        for name, rows in before.items():
            assert torch.equal(features[name], rows), f"changed the {name} of the context"


def check_what_it_computed_is_the_targets(make: Make) -> None:
    """The target gives the scores of a draft and of the next one from what a drafter hands over of
    its first layers as it does alone.
    """
    drafter, target = opened(make)
    for prompt in (prompt for prompt in PROMPTS if len(prompt) > 1):
        context = context_after(drafter, target, prompt)
        draft = write_draft(drafter, target, context, gamma=4)
        computed = drafter.computed(context, draft) if draft else None
        if computed:
            assert_resumed(target, prompt, draft, computed)


def check_is_deterministic_when_greedy(make: Make) -> None:
    """At temperature 0 the draft does not depend on the seed."""
    drafter, target = opened(make)
    for prompt in PROMPTS:
        first, *others = (
            draft_after(drafter, target, prompt, 5, sampling=Sampling(), seed=seed)
            for seed in range(3)
        )
        assert all(same_draft(first, other) for other in others), "the seed changed a greedy draft"


def check_greedy_text_is_the_targets(make: Make) -> None:
    """At temperature 0 the text is plain greedy decoding, token for token.

    (A shorter one for a drafter that needs a model.)
    """
    drafter = make()
    target, untouched = bound_target(drafter), unbound_target(drafter)
    length = 24 if isinstance(target, TabularTarget) else 12
    for prompt in PROMPTS:
        setup = Setup(target, drafter, SampleMatch(), prompt, gamma=4, sampling=Sampling())
        text = list(loop_text(setup, length))
        # A text is greedy if each of its tokens is the likeliest one, which takes one pass to see.
        likeliest = untouched.open(prompt).score(Draft.chain(text[:-1])).argmax(-1).tolist()
        assert text == likeliest, f"wrote {text}, where the target's likeliest are {likeliest}"
        assert len(text) == length, f"wrote {len(text)} tokens of {length}"


def check_batched_drafts_equal_single_ones(make: Make) -> None:
    """Drafts written in one batch equal those that each context gets alone."""
    text = [0, 1, 2, 0, 1, 3, 0, 2]
    prefixes = [text[:length] for length in range(3, len(text) + 1)]
    others = [tokens[::-1] for tokens in prefixes]  # as long as those of the batch before
    drafter, target = opened(make)
    for texts, gamma in ((prefixes, 1), (others, 1), (list(PROMPTS), 4)):
        for sampling in (SAMPLED, Sampling()):
            contexts = [context_after(drafter, target, tokens) for tokens in texts]
            drafts = write_drafts(drafter, target, contexts, gamma=gamma, sampling=sampling)
            for seed, (tokens, draft) in enumerate(zip(texts, drafts, strict=True)):
                alone = draft_after(drafter, target, tokens, gamma, sampling=sampling, seed=seed)
                assert same_draft(draft, alone), (
                    f"after {tokens} it wrote {draft.tokens} in a batch, and {alone.tokens} alone"
                )


CHECKS = (
    check_stays_within_gamma,
    check_siblings_are_of_the_declared_kind,
    check_draws_only_from_chance,
    check_depends_only_on_context,
    check_goes_back_to_a_shorter_text,
    check_follows_what_was_accepted,
    check_leaves_the_context_alone,
    check_is_deterministic_when_greedy,
    check_greedy_text_is_the_targets,
    check_batched_drafts_equal_single_ones,
)
