"""Checks of a rule's distributions: those of the texts, in one round and over several."""

from collections import defaultdict
from collections.abc import Callable, Iterator

import torch

from outrider.contract.drafter import Drafter
from outrider.contract.sampling import Sampling
from outrider.contract.verifier import Verifier
from outrider.targets.tabular import TabularTarget
from outrider.testing.cases import VOCAB, cases, tied_target
from outrider.testing.chi_square import assert_samples
from outrider.testing.conditionals import Conditionals, Distribution
from outrider.testing.exact import TOLERANCE, Setup, loop_distribution, output_distribution
from outrider.testing.table_drafters import CHAINS, TREES, ChainDrafter, TreeDrafter

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
    _assert_all(make())


def check_larger_drafts(make: Make) -> None:
    """The same holds for longer chains, and for larger trees over more tokens."""
    _assert_all(make(), thorough=True)


def _assert_all(verifier: Verifier, *, thorough: bool = False) -> None:
    for case in cases(verifier, thorough=thorough):
        _assert_claim(case.distribution(verifier), case.setup(verifier), str(case))


def check_loop_distribution_is_as_claimed(make: Make) -> None:
    """The same holds for the whole loop over several rounds, with its rollback."""
    verifier, target = make(), TabularTarget(2)
    for name, drafter in drafters(verifier, target):
        budget = 2 if drafter.trees else None
        setup = Setup(target, drafter, verifier, [1], gamma=2, budget=budget)
        case = f"{name} draft, three tokens of the loop"
        _assert_claim(loop_distribution(setup, 3), setup, case)


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
    some = dict(drafters(verifier, target))
    trees = [name for name in some if name not in CHAINS][:1]
    for drafter in (some[name] for name in ("drawn", "silent", *trees)):
        setup = Setup(target, drafter, verifier, [0, 1], gamma=1, budget=2)
        exact = loop_distribution(setup, 2)
        assert_samples(setup, exact, TEXTS, single=10, make=drafter.open)


def drafters(verifier: Verifier, target: TabularTarget) -> Iterator[tuple[str, Drafter]]:
    """Yields drafters of every kind that the rule takes, with their names."""
    for kind in CHAINS:
        yield kind, ChainDrafter(target, kind)
    for kind in TREES:
        if kind in verifier.takes:
            yield f"{kind} tree", TreeDrafter(target, kind)


def _assert_claim(probs: Distribution, setup: Setup, case: str) -> None:
    """Raises AssertionError if a text is not as likely as the rule claims, or strays further from
    the target than its budget allows; names the case.
    """
    rule, conditionals = setup.verifier, Conditionals(setup.target, setup.prompt)
    masses: Distribution = defaultdict(float)
    bounds: Distribution = {(): 1.0}
    for text, p in probs.items():
        for known in range(len(text) + 1):
            masses[text[:known]] += p
    # A ceiling is tightest on the first token, so a lossy rule is held to it on every prefix.
    for text in sorted(masses.keys() - probs.keys(), key=len):
        for token, share in enumerate(conditionals.allowed(text, setup.sampling, rule)):
            bound = bounds[*text, token] = bounds[text] * share
            p = masses[*text, token]
            if (abs(p - bound) if rule.lossless else p - bound) > TOLERANCE:
                claim = "the target's is" if rule.lossless else "its ceiling is"
                raise AssertionError(
                    f"text {(*text, token)} comes out with probability {p:.6f}: {claim} {bound:.6f}"
                    f" ({case})"
                )
        if rule.budget is None or not masses[text]:
            continue
        own = setup.sampling.probs(conditionals.after(text)).double()
        h = torch.tensor([masses[*text, token] for token in range(len(own))], dtype=own.dtype)
        spent = rule.budget.spent(h / masses[text], own)
        if spent > rule.budget.limit + BUDGET_TOLERANCE:
            raise AssertionError(
                f"the token after text {text} is {spent:.6f} away from the target's distribution"
                f" ({rule.budget.divergence}): its budget is {rule.budget.limit} ({case})"
            )


CHECKS = (
    check_output_distribution_is_as_claimed,
    check_loop_distribution_is_as_claimed,
    check_greedy_text_is_as_claimed,
    check_sampled_texts_have_the_enumerated_distribution,
)
THOROUGH = (check_larger_drafts,)
