"""Checks of an acceptance rule: each takes a callable that makes one, and raises AssertionError."""

import itertools
import random
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial

import torch

from outrider.contract.chance import Chance, EnumeratedChance, SampledChance
from outrider.contract.context import Context, Tokens
from outrider.contract.draft import ROOT, Draft
from outrider.contract.drafter import Drafter
from outrider.contract.sampling import Sampling
from outrider.contract.verifier import Scores, Verdict, Verifier
from outrider.decoding.decode import decode
from outrider.targets.tabular import TabularTarget
from outrider.testing.exact import (
    Distribution,
    Setup,
    loop_distribution,
    output_distribution,
    target_distribution,
)
from outrider.testing.stage import (
    CHAINS,
    SAMPLED,
    TREES,
    ChainDrafter,
    TreeDrafter,
    play_draft,
)

Make = Callable[[], Verifier]

VOCAB = 3
TOLERANCE = 1e-12
BUDGET_TOLERANCE = 1e-9
"""For conditional distributions, whose rounding grows as the text before them gets unlikely."""
GREEDY = Sampling()
SETTINGS = (SAMPLED, Sampling(temperature=0.7, top_k=2), Sampling(temperature=1.3, top_p=0.8))


def check_output_distribution_is_as_claimed(make: Make) -> None:
    """A lossless rule gives gamma + 1 tokens the target's distribution to 1e-12, for every kind and
    depth of draft; a lossy one makes no text likelier than its own ceiling allows.
    """
    verifier, target = make(), TabularTarget(VOCAB)
    for (name, drafter), gamma in itertools.product(_drafters(verifier, target), (1, 2, 3)):
        if drafter.trees and gamma == 3:
            continue  # a full tree of depth 3 has 14 nodes: 3 ** 14 drafts
        for sampling in SETTINGS if gamma < 3 else SETTINGS[:1]:
            setup = Setup(
                target, drafter, verifier, [0, 2], gamma=gamma, sampling=sampling, budget=6
            )
            case = f"{name} draft, gamma {gamma}, {sampling}"
            _assert_claim(output_distribution(setup), setup, case)


def check_loop_distribution_is_as_claimed(make: Make) -> None:
    """The same holds for the whole loop over several rounds, with its rollback."""
    verifier, target = make(), TabularTarget(2)
    for name, drafter in _drafters(verifier, target):
        budget = 2 if drafter.trees else None
        setup = Setup(target, drafter, verifier, [1], gamma=2, sampling=SAMPLED, budget=budget)
        case = f"{name} draft, three tokens of the loop"
        _assert_claim(loop_distribution(setup, 3), setup, case)


def check_tokens_keep_to_the_budget(make: Make) -> None:
    """If a rule states a budget, the distribution of every token, given the text before it, is
    within that budget of the target's, in one round and over several.
    """
    verifier = make()
    if verifier.budget is None:
        return
    target = TabularTarget(VOCAB)
    for (name, drafter), gamma in itertools.product(_drafters(verifier, target), (1, 2)):
        for sampling in (*SETTINGS, GREEDY):
            setup = Setup(
                target, drafter, verifier, [0, 2], gamma=gamma, sampling=sampling, budget=6
            )
            case = f"{name} draft, gamma {gamma}, {sampling}"
            _assert_within_budget(output_distribution(setup), setup, case)
    small = TabularTarget(2)
    for name, drafter in _drafters(verifier, small):
        setup = Setup(small, drafter, verifier, [1], gamma=2, sampling=SAMPLED, budget=2)
        case = f"{name} draft, three tokens of the loop"
        _assert_within_budget(loop_distribution(setup, 3), setup, case)


def check_greedy_text_is_as_claimed(make: Make) -> None:
    """At temperature 0 a lossless rule writes the target's greedy text, and a lossy one writes
    only tokens that its ceiling allows.
    """
    verifier = make()
    for seed in range(5):
        target = TabularTarget(VOCAB, seed=seed)
        for name, drafter in _drafters(verifier, target):
            setup = Setup(target, drafter, verifier, [1], gamma=2, sampling=GREEDY, budget=6)
            _assert_claim(output_distribution(setup), setup, f"{name} draft, temperature 0")


def check_accepts_a_path(make: Make) -> None:
    """The accepted nodes form a path from the root, and the next token is of the vocabulary."""
    verifier, target = make(), TabularTarget(VOCAB)
    for name, drafter in _drafters(verifier, target):
        for seed in range(30):
            verdict, parents = _verdict(verifier, drafter, target, seed)
            last = ROOT
            for node in verdict.accepted:
                assert 0 <= node < len(parents), f"accepted node {node} of {len(parents)}: {name}"
                assert parents[node] == last, f"accepted {verdict.accepted}, no path: {name} draft"
                last = node
            assert 0 <= verdict.next_token < VOCAB, f"next token {verdict.next_token}: {name} draft"


def check_draws_only_from_chance(make: Make) -> None:
    """The same seed gives the same verdict; global generators are neither read nor moved."""
    target = TabularTarget(VOCAB)
    for name, drafter in _drafters(make(), target):
        verdicts = []
        for noise in (1, 2):
            torch.manual_seed(noise)
            random.seed(noise)
            before = (torch.get_rng_state(), random.getstate())
            verdicts.append([_verdict(make(), drafter, target, seed)[0] for seed in range(30)])
            assert torch.equal(before[0], torch.get_rng_state()), "moved torch's global generator"
            assert before[1] == random.getstate(), "moved Python's global generator"
        assert verdicts[0] == verdicts[1], f"verdicts differ for the same seed: {name} draft"


def check_leaves_distributions_alone(make: Make) -> None:
    """Verifying changes neither the scores nor the distributions of the draft."""
    verifier, target = make(), TabularTarget(VOCAB)
    for name, drafter in _drafters(verifier, target):
        for seed in range(30):
            draft = play_draft(
                drafter, target, Context(Tokens([0])), gamma=2, sampling=SAMPLED, seed=seed
            )
            scores = Scores(target.open([0]).score(draft), SAMPLED)
            tensors = [
                scores.logits,
                scores.probs,
                *(probs for probs in draft.probs if probs is not None),
            ]
            before = [tensor.clone() for tensor in tensors]
            verifier.verify(draft, scores, SampledChance.seeded(seed))
            unchanged = all(map(torch.equal, before, tensors))
            assert unchanged, f"changed the scores or distributions that it was given: {name} draft"


def check_accepts_reports_true_probabilities(make: Make) -> None:
    """If a rule reports how likely it accepts each token, it accepts each with that probability."""
    verifier, target = make(), TabularTarget(VOCAB)
    probs = (TabularTarget(VOCAB, seed=3).logits([0, 1]).softmax(-1), torch.eye(VOCAB).double()[1])
    for q, sampling in itertools.product(probs, (*SETTINGS, GREEDY)):
        is_point_mass = bool(q.max() == 1)
        for token in q.nonzero().flatten().tolist():
            draft = Draft((token,), (ROOT,), (None if is_point_mass else q,))
            scores = Scores(target.open([0, 1]).score(draft), sampling)
            reported = verifier.accepts(q, scores, ROOT)
            if reported is None:
                return
            exact = _acceptance(verifier, draft, scores)
            if verifier.coupled:
                exact = _coupled_acceptance(verifier, q, token, scores)
            assert abs(exact - float(reported[token])) <= TOLERANCE, (
                f"accepts token {token} with probability {exact:.6f}: it reports"
                f" {reported[token]:.6f} ({sampling})"
            )


def check_text_depends_on_the_seed_alone(make: Make) -> None:
    """A coupled rule writes the same text for a seed with every drafter and every gamma."""
    verifier, target = make(), TabularTarget(VOCAB)
    if not verifier.coupled:
        return
    for seed in range(5):
        texts: dict[tuple[int, ...], str] = {}
        for (name, drafter), gamma in itertools.product(_drafters(verifier, target), (1, 3)):
            sampling = Sampling(temperature=1.0, seed=seed)
            rounds = decode(
                target, drafter, verifier, [0, 2], gamma=gamma, budget=6, sampling=sampling,
                max_new_tokens=12,
            )  # fmt: skip
            text = tuple(itertools.chain.from_iterable(round.tokens for round in rounds))
            texts.setdefault(text, f"{name} draft, gamma {gamma}")
        assert len(texts) == 1, f"seed {seed} gives different texts: {'; '.join(texts.values())}"


def _acceptance(verifier: Verifier, draft: Draft, scores: Scores) -> float:
    """Returns the probability that the first token of a draft is accepted."""
    outcomes = EnumeratedChance.outcomes(partial(verifier.verify, draft, scores))
    return sum(p for p, verdict in outcomes if verdict.accepted)


def _coupled_acceptance(verifier: Verifier, q: torch.Tensor, token: int, scores: Scores) -> float:
    """Returns the probability that `token` is accepted, given that it wins the race for q."""

    def play(chance: Chance) -> bool:
        drawn = chance.race(q, scores.start)
        verdict = verifier.verify(Draft((drawn,), (ROOT,), (q,)), scores, chance)
        return drawn == token and bool(verdict.accepted)

    joint = sum(p for p, accepted in EnumeratedChance.outcomes(play) if accepted)
    return joint / float(q[token])


def _drafters(verifier: Verifier, target: TabularTarget) -> Iterator[tuple[str, Drafter]]:
    """Yields drafters of every kind that the rule takes, with their names."""
    for kind in CHAINS:
        yield kind, ChainDrafter(target, kind)
    for kind in TREES:
        if kind in verifier.takes:
            yield f"{kind} tree", TreeDrafter(target, kind)


def _verdict(
    verifier: Verifier, drafter: Drafter, target: TabularTarget, seed: int
) -> tuple[Verdict, tuple[int, ...]]:
    """Returns the verdict on a draft, and the parents of the draft's nodes."""
    context = Context(Tokens([0, 1]))
    draft = play_draft(drafter, target, context, gamma=2, sampling=SAMPLED, seed=seed)
    scores = Scores(target.open([0, 1]).score(draft), SAMPLED)
    return verifier.verify(draft, scores, SampledChance.seeded(seed)), draft.parents


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
    check_accepts_a_path,
    check_accepts_reports_true_probabilities,
    check_text_depends_on_the_seed_alone,
    check_draws_only_from_chance,
    check_leaves_distributions_alone,
)
