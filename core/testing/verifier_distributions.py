"""Checks of a rule's distributions: those of the texts, in one round and over several."""

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator

import torch

from outrider.contract.draft import Draft
from outrider.contract.drafter import Drafter
from outrider.contract.sampling import Sampling
from outrider.contract.verifier import Verifier
from outrider.targets.tabular import TabularTarget
from outrider.testing.cases import VOCAB, Case, cases, thorough_cases, tied_target
from outrider.testing.exact import (
    TOLERANCE,
    Distribution,
    Setup,
    loop_distribution,
    output_distribution,
    target_distribution,
)
from outrider.testing.sampled import assert_samples
from outrider.testing.table_drafters import CHAINS, TREES, ChainDrafter, TreeDrafter
from outrider.testing.tiny_targets import SAMPLED

Make = Callable[[], Verifier]

BUDGET_TOLERANCE = 1e-9
"""For conditional distributions, whose rounding grows as the text before them gets unlikely."""
GREEDY = Sampling()
TEXTS = 200
"""How many texts are sampled: enough to see a total variation of a tenth."""


def check_output_distribution_is_as_claimed(make: Make) -> None:
    """A lossless rule gives gamma + 1 tokens the target's distribution to 1e-12, for every kind and
    shape of draft; a lossy one makes no text likelier than its own ceiling allows.

    Each token is within the budget of a rule that states one, given the text before it.
    """
    verifier = make()
    _assert_all(verifier, cases(verifier))


def check_larger_drafts(make: Make) -> None:
    """The same holds for longer chains, and for larger trees over more tokens."""
    verifier = make()
    _assert_all(verifier, thorough_cases(verifier))


def _assert_all(verifier: Verifier, played: Iterable[Case]) -> None:
    for case in played:
        setup, probs = case.setup(verifier), case.distribution(verifier)
        _assert_claim(probs, setup, str(case))
        if verifier.budget is not None:
            _assert_within_budget(probs, setup, str(case))


def check_loop_distribution_is_as_claimed(make: Make) -> None:
    """The same holds for the whole loop over several rounds, with its rollback."""
    verifier, target = make(), TabularTarget(2)
    for name, drafter in drafters(verifier, target):
        budget = 2 if drafter.trees else None
        setup = Setup(target, drafter, verifier, [1], gamma=2, sampling=SAMPLED, budget=budget)
        case = f"{name} draft, three tokens of the loop"
        _assert_claim(loop_distribution(setup, 3), setup, case)


def check_tokens_keep_to_the_budget(make: Make) -> None:
    """If a rule states a budget, the distribution of every token, given the text before it, is
    within that budget of the target's, at temperature 0 and over several rounds.
    """
    verifier = make()
    if verifier.budget is None:
        return
    target = TabularTarget(VOCAB)
    for (name, drafter), gamma in itertools.product(drafters(verifier, target), (1, 2)):
        greedy = Case(f"{name} draft", target, drafter, gamma, GREEDY)
        setup = greedy.setup(verifier)
        _assert_within_budget(output_distribution(setup), setup, str(greedy))
    small = TabularTarget(2)
    for name, drafter in drafters(verifier, small):
        setup = Setup(small, drafter, verifier, [1], gamma=2, sampling=SAMPLED, budget=2)
        case = f"{name} draft, three tokens of the loop"
        _assert_within_budget(loop_distribution(setup, 3), setup, case)


def check_greedy_text_is_as_claimed(make: Make) -> None:
    """At temperature 0 a lossless rule writes the target's greedy text, the first of tokens that
    tie, and a lossy one writes only tokens that its ceiling allows.
    """
    verifier = make()
    for target in (*(TabularTarget(VOCAB, seed=seed) for seed in range(5)), tied_target(VOCAB)):
        for name, drafter in drafters(verifier, target):
            setup = Setup(target, drafter, verifier, [1], gamma=2, sampling=GREEDY, budget=6)
            _assert_claim(output_distribution(setup), setup, f"{name} draft, temperature 0")


def check_sampled_texts_have_the_enumerated_distribution(make: Make) -> None:
    """Texts that the loop samples, one by one or in a batch, have the distribution that is
    enumerated, by a chi-square test with a fixed seed; the batch writes the texts written alone.
    """
    verifier, target = make(), TabularTarget(VOCAB)
    kinds = [kind for kind in TREES if kind in verifier.takes][:1]
    parts: list[Drafter] = [ChainDrafter(target, "drawn"), ChainDrafter(target, "silent")]
    parts += [TreeDrafter(target, kind) for kind in kinds]
    for drafter in parts:
        setup = Setup(target, drafter, verifier, [0, 1], gamma=1, sampling=SAMPLED, budget=2)
        exact = loop_distribution(setup, 2)
        assert_samples(setup, exact, length=2, count=TEXTS, single=10, make=drafter.open)


def drafters(verifier: Verifier, target: TabularTarget) -> Iterator[tuple[str, Drafter]]:
    """Yields drafters of every kind that the rule takes, with their names."""
    for kind in CHAINS:
        yield kind, ChainDrafter(target, kind)
    for kind in TREES:
        if kind in verifier.takes:
            yield f"{kind} tree", TreeDrafter(target, kind)


def _assert_within_budget(probs: Distribution, setup: Setup, case: str) -> None:
    """Raises AssertionError if a token strays further from the target than the budget allows."""
    budget, vocab = setup.verifier.budget, range(setup.target.vocab_size)
    assert budget is not None
    prefixes: Distribution = defaultdict(float)
    for text, p in probs.items():
        for known in range(len(text) + 1):
            prefixes[text[:known]] += p
    length = len(next(iter(probs)))
    for text, mass in list(prefixes.items()):
        if len(text) == length or mass <= 0:
            continue
        h = torch.tensor(
            [prefixes.get((*text, token), 0.0) / mass for token in vocab], dtype=torch.float64
        )
        logits = setup.target.open([*setup.prompt, *text]).score(Draft())[0]
        spent = budget.spent(h, setup.sampling.probs(logits).double())
        if spent > budget.limit + BUDGET_TOLERANCE:
            raise AssertionError(
                f"the token after text {text} is {spent:.6f} away from the target's distribution"
                f" ({budget.divergence}): its budget is {budget.limit} ({case})"
            )


def _assert_claim(probs: Distribution, setup: Setup, case: str) -> None:
    """Raises AssertionError if a text is not as likely as the rule claims; names the case."""
    verifier, length = setup.verifier, len(next(iter(probs)))
    # A ceiling is tightest on the first token, so a lossy rule is held to it on every prefix.
    for known in (length,) if verifier.lossless else range(1, length + 1):
        prefixes: Distribution = defaultdict(float)
        for text, p in probs.items():
            prefixes[text[:known]] += p
        bounds = target_distribution(setup.target, setup.prompt, known, setup.sampling, verifier)
        for text, bound in bounds.items():
            p = prefixes[text]
            excess = abs(p - bound) if verifier.lossless else p - bound
            if excess > TOLERANCE:
                claim = "the target's is" if verifier.lossless else "its ceiling is"
                raise AssertionError(
                    f"text {text} comes out with probability {p:.6f}: {claim} {bound:.6f} ({case})"
                )


CHECKS = (
    check_output_distribution_is_as_claimed,
    check_loop_distribution_is_as_claimed,
    check_tokens_keep_to_the_budget,
    check_greedy_text_is_as_claimed,
    check_sampled_texts_have_the_enumerated_distribution,
)
THOROUGH = (check_larger_drafts,)
