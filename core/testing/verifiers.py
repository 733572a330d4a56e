"""Checks of an acceptance rule: each takes a callable that makes one, and raises AssertionError."""

import itertools
from collections import defaultdict
from collections.abc import Callable
from functools import partial

import torch

from outrider.contract.chance import Chance, SampledChance
from outrider.contract.context import Context, Tokens
from outrider.contract.draft import ROOT, Draft, Verdict
from outrider.contract.drafter import Drafter
from outrider.contract.sampling import Sampling
from outrider.contract.verifier import Scores, Verifier
from outrider.targets.tabular import TabularTarget
from outrider.testing.cases import SETTINGS, VOCAB
from outrider.testing.conditionals import Conditionals
from outrider.testing.enumerated import EnumeratedChance
from outrider.testing.exact import TOLERANCE, Setup, loop_text, verdict_of
from outrider.testing.generators import played_twice
from outrider.testing.tiny_targets import SAMPLED, write_draft
from outrider.testing.verifier_distributions import GREEDY, drafters

Make = Callable[[], Verifier]

PROMPT = [0, 1]
SEEDS = 10
"""How many verdicts are played on each kind of draft."""


def bound_rule(make: Make) -> tuple[Verifier, TabularTarget]:
    """Returns a rule, and the table that it is bound to."""
    verifier, target = make(), TabularTarget(VOCAB)
    verifier.bind(target)
    return verifier, target


def check_accepts_a_path(make: Make) -> None:
    """The accepted nodes form a path from the root, and the next token is of the vocabulary."""
    verifier, target = bound_rule(make)
    for _, drafter in drafters(verifier, target):
        for seed in range(SEEDS):
            _verdict(verifier, drafter, target, seed)


def check_draws_only_from_chance(make: Make) -> None:
    """The same seed gives the same verdict; global generators are neither read nor moved."""
    for name, drafter in drafters(*bound_rule(make)):
        first, second = played_twice(partial(_new_verdicts, make, drafter))
        assert first == second, f"verdicts differ for the same seed: {name} draft"


def check_a_text_begins_without_state(make: Make) -> None:
    """A rule decides in each text as a new one does, whatever the texts before it were; what it
    keeps of a text is the state of what its `open` returns.
    """
    used, target = bound_rule(make)
    for name, drafter in drafters(used, target):
        early = used.open()
        rules = {"one opened for an earlier text": used, "one opened before": early}
        expected = _new_verdicts(make, drafter)
        for case, rule in rules.items():
            verdicts = [_verdict(rule, drafter, target, seed) for seed in range(SEEDS)]
            assert verdicts == expected, f"{case} decides otherwise than a new one: {name} draft"


def _new_verdicts(make: Make, drafter: Drafter) -> list[Verdict]:
    """Returns the verdicts of new rules, each on a draft of its own."""
    rules = (bound_rule(make) for _ in range(SEEDS))
    return [_verdict(rule, drafter, target, seed) for seed, (rule, target) in enumerate(rules)]


def check_leaves_distributions_alone(make: Make) -> None:
    """Verifying changes neither the scores nor the distributions of the draft."""
    verifier, target = bound_rule(make)
    for name, drafter in drafters(verifier, target):
        for seed in range(30):
            draft, scores = _scored(verifier, drafter, target, seed)
            probs = [probs for probs in draft.probs if probs is not None]
            tensors = [scores.logits, scores.probs, *probs]
            before = [tensor.clone() for tensor in tensors]
            verdict_of(verifier, draft, scores, SampledChance.seeded(seed))
            unchanged = all(map(torch.equal, before, tensors))
            assert unchanged, f"changed the scores or distributions that it was given: {name} draft"


def check_accepts_reports_true_probabilities(make: Make) -> None:
    """If a rule reports how likely it accepts each token, it accepts each with that probability,
    at every node of a chain.
    """
    verifier, target = bound_rule(make)
    probs = (TabularTarget(VOCAB, seed=3).logits(PROMPT).softmax(-1), torch.eye(VOCAB).double()[1])
    for q, sampling in itertools.product(probs, (*SETTINGS, GREEDY)):
        chain: list[int] = []
        for depth in range(2 if verifier.coupled else 3):
            draft = Draft.chain([*chain, 0])
            scores = Conditionals(target, PROMPT).scores(draft, sampling, verifier)
            reported = verifier.accepts(q, scores, depth - 1)
            if reported is None:
                return
            for token, exact in _acceptance(verifier, q, chain, scores).items():
                assert abs(exact - float(reported[token])) <= TOLERANCE, (
                    f"accepts token {token} with probability {exact:.6f}: it reports"
                    f" {reported[token]:.6f} (after {depth} tokens, {sampling})"
                )
            # Every rule may accept the likeliest token.
            chain.append(int(scores.after(depth - 1).argmax()))


def check_accepts_along_reports_true_probabilities(make: Make) -> None:
    """If a rule reports how likely it accepts the draft of a text that the target writes itself, it
    does so with that probability, at both tokens of a draft of two.
    """
    verifier, target = bound_rule(make)
    if verifier.accepts_along(torch.ones(1, 2, dtype=torch.float64)) is None:
        return
    q = TabularTarget(VOCAB, seed=3).logits(PROMPT).softmax(-1)
    for first in range(VOCAB):
        kept = expected = 0.0  # how likely the draft begins with `first` and this is accepted
        for second in range(VOCAB):
            draft = Draft((first, second), (ROOT, 0), (q, q))
            scores = Conditionals(target, PROMPT).scores(draft, SAMPLED, verifier)
            drawn, p = q[[first, second]], scores.probs[[0, 1], [first, second]]
            reported = verifier.accepts_along((drawn / p)[None])
            assert reported is not None, "reports for some drafts, and not for others"
            lengths = [0.0, 0.0, 0.0]
            for share, verdict in EnumeratedChance.outcomes(
                partial(verdict_of, verifier, draft, scores)
            ):
                lengths[len(verdict.accepted)] += share
            expected = float(reported[0, 0] * p[0])
            kept += float(drawn.prod()) * (lengths[1] + lengths[2])
            gap = abs(float(drawn.prod()) * lengths[2] - float((reported[0] * p).prod()))
            assert gap <= TOLERANCE, f"accepts {first}, {second} otherwise than it reports"
        assert abs(kept - expected) <= TOLERANCE, f"accepts {first} otherwise than it reports"


def check_text_depends_on_the_seed_alone(make: Make) -> None:
    """A coupled rule writes the same text for a seed with every drafter and every gamma."""
    verifier, target = bound_rule(make)
    for seed in range(5):
        texts: dict[tuple[int, ...], str] = {}
        for (name, drafter), gamma in itertools.product(drafters(verifier, target), (1, 3)):
            sampling = Sampling(temperature=1.0, seed=seed)
            setup = Setup(
                target, drafter, verifier, [0, 2], gamma=gamma, sampling=sampling, budget=6
            )
            texts.setdefault(loop_text(setup, 12), f"{name} draft, gamma {gamma}")
        assert len(texts) == 1, f"seed {seed} gives different texts: {'; '.join(texts.values())}"


def _acceptance(
    verifier: Verifier, q: torch.Tensor, chain: list[int], scores: Scores
) -> dict[int, float]:
    """Returns by token of q the probability that it is accepted after a chain that was accepted.

    For a coupled rule, given that chain and token win the races.
    """
    key = scores.noise.key
    probs = (*(None for _ in chain), None if q.max() == 1 else q)

    def play(chance: Chance) -> tuple[int, int]:
        for depth, token in enumerate(chain if verifier.coupled else ()):
            if chance.race(scores.after(depth - 1), key(chain[:depth])) != token:
                return -1, 0
        drawn = chance.race(q, key(chain)) if verifier.coupled else chance.categorical(q)
        draft = Draft((*chain, drawn), tuple(range(ROOT, len(chain))), probs)
        return drawn, len(verdict_of(verifier, draft, scores, chance).accepted)

    reached, accepted = defaultdict[int, float](float), defaultdict[int, float](float)
    for p, (drawn, length) in EnumeratedChance.outcomes(play):
        if drawn >= 0 and length >= len(chain):
            reached[drawn] += p
            accepted[drawn] += p * (length > len(chain))
    return {token: accepted[token] / p for token, p in reached.items() if p > 0}


def _scored(
    verifier: Verifier, drafter: Drafter, target: TabularTarget, seed: int
) -> tuple[Draft, Scores]:
    """Returns a draft and the scores of its nodes."""
    draft = write_draft(drafter, target, Context(Tokens(PROMPT)), gamma=2, seed=seed)
    return draft, Conditionals(target, PROMPT).scores(draft, SAMPLED, verifier)


def _verdict(verifier: Verifier, drafter: Drafter, target: TabularTarget, seed: int) -> Verdict:
    """Returns the verdict on a draft."""
    draft, scores = _scored(verifier, drafter, target, seed)
    return verdict_of(verifier, draft, scores, SampledChance.seeded(seed))


CHECKS = (
    check_accepts_a_path,
    check_a_text_begins_without_state,
    check_accepts_reports_true_probabilities,
    check_accepts_along_reports_true_probabilities,
    check_draws_only_from_chance,
    check_leaves_distributions_alone,
)
