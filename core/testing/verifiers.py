"""Checks of an acceptance rule: each takes what makes one, and raises AssertionError."""

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
from outrider.contract.pen import Pen
from outrider.contract.sampling import Sampling
from outrider.contract.verifier import Scores, Verdict, Verifier
from outrider.targets.tabular import TabularTarget
from outrider.testing.exact import (
    Distribution,
    loop_distribution,
    output_distribution,
    target_distribution,
)
from outrider.testing.stage import CHAINS, TREES, ChainDrafter, TreeDrafter, play_draft

Make = Callable[[], Verifier]

VOCAB = 3
TOLERANCE = 1e-12
SAMPLED = Sampling(temperature=1.0)
GREEDY = Sampling()
SETTINGS = (SAMPLED, Sampling(temperature=0.7, top_k=2), Sampling(temperature=1.3, top_p=0.8))


def check_output_distribution_keeps_its_word(make: Make) -> None:
    """Of a lossless rule the distribution of gamma + 1 tokens is the target's to 1e-12, for every kind
    and depth of draft; of a lossy one no text is likelier than the rule's own ceiling allows.
    """
    verifier, target = make(), TabularTarget(VOCAB)
    for (name, drafter), gamma in itertools.product(_drafters(verifier, target), (1, 2, 3)):
        if drafter.trees and gamma == 3:
            continue  # a full tree of depth 3 has 14 nodes: 3 ** 14 drafts
        for sampling in SETTINGS if gamma < 3 else SETTINGS[:1]:
            probs = output_distribution(
                target, drafter, verifier, [0, 2], gamma=gamma, sampling=sampling, budget=6
            )
            where = f"{name} draft, gamma {gamma}, {sampling}"
            _keeps_word(verifier, probs, target, [0, 2], sampling, where)


def check_loop_distribution_keeps_its_word(make: Make) -> None:
    """The same for the whole loop over several rounds, with its rollback."""
    verifier, target = make(), TabularTarget(2)
    for name, drafter in _drafters(verifier, target):
        probs = loop_distribution(
            target,
            drafter,
            verifier,
            [1],
            gamma=2,
            length=3,
            sampling=SAMPLED,
            budget=2 if drafter.trees else None,
        )
        where = f"{name} draft, three tokens of the loop"
        _keeps_word(verifier, probs, target, [1], SAMPLED, where)


def check_greedy_text_keeps_its_word(make: Make) -> None:
    """At temperature 0 a lossless rule writes the target's greedy text, and a lossy one only
    tokens that its ceiling allows.
    """
    verifier = make()
    for seed in range(5):
        target = TabularTarget(VOCAB, seed=seed)
        for name, drafter in _drafters(verifier, target):
            probs = output_distribution(
                target, drafter, verifier, [1], gamma=2, sampling=GREEDY, budget=6
            )
            where = f"{name} draft, temperature 0"
            _keeps_word(verifier, probs, target, [1], GREEDY, where)


def check_accepts_a_path(make: Make) -> None:
    """What is accepted is a path from the root, and the next token is of the vocabulary."""
    verifier, target = make(), TabularTarget(VOCAB)
    for name, drafter in _drafters(verifier, target):
        for seed in range(30):
            verdict, parents = _verdict(verifier, drafter, target, seed)
            at = ROOT
            for node in verdict.accepted:
                assert 0 <= node < len(parents), f"accepted node {node} of {len(parents)}: {name}"
                assert parents[node] == at, f"accepted {verdict.accepted}, no path: {name} draft"
                at = node
            assert 0 <= verdict.next_token < VOCAB, f"next token {verdict.next_token}: {name} draft"


def check_draws_only_from_chance(make: Make) -> None:
    """The same seed gives the same verdict, and no global generator is read or moved."""
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
    """Scores and draft distributions are what they were."""
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
            same = all(map(torch.equal, before, tensors))
            assert same, f"changed the scores or distributions that it was given: {name} draft"


def check_accepts_is_how_often_it_accepts(make: Make) -> None:
    """Where a rule says how likely it accepts each token at a place, that is how often it does."""
    verifier, target = make(), TabularTarget(VOCAB)
    probs = (TabularTarget(VOCAB, seed=3).logits([0, 1]).softmax(-1), torch.eye(VOCAB).double()[1])
    for q, sampling in itertools.product(probs, (*SETTINGS, GREEDY)):
        point = bool(q.max() == 1)
        for token in q.nonzero().flatten().tolist():
            draft = Draft((token,), (ROOT,), (None if point else q,))
            scores = Scores(target.open([0, 1]).score(draft), sampling)
            said = verifier.accepts(q, scores, ROOT)
            if said is None:
                return
            found = sum(
                p
                for p, verdict in EnumeratedChance.outcomes(partial(verifier.verify, draft, scores))
                if verdict.accepted
            )
            assert abs(found - float(said[token])) <= TOLERANCE, (
                f"accepts token {token} with probability {found:.6f}: it says {said[token]:.6f}"
                f" ({sampling})"
            )


def accepted_tokens(
    verifier: Verifier, drafter: Drafter, target: TabularTarget, prompt: list[int], gamma: int
) -> float:
    """Returns the exact expected number of accepted tokens of a round at temperature 1."""

    def write(chance: Chance) -> Draft:
        pen = Pen(sampling=SAMPLED, chance=chance, vocab_size=target.vocab_size, gamma=gamma)
        drafter.propose(Context(Tokens(list(prompt))), pen)
        return pen.finish()

    expected = 0.0
    for probability, draft in EnumeratedChance.outcomes(write):
        scores = Scores(target.open(prompt).score(draft), SAMPLED)
        for p, verdict in EnumeratedChance.outcomes(partial(verifier.verify, draft, scores)):
            expected += probability * p * len(verdict.accepted)
    return expected


def _drafters(verifier: Verifier, target: TabularTarget) -> Iterator[tuple[str, Drafter]]:
    for kind in CHAINS:
        yield kind, ChainDrafter(target, kind)
    for kind in TREES:
        if kind in verifier.takes:
            yield f"{kind} tree", TreeDrafter(target, kind)


def _verdict(
    verifier: Verifier, drafter: Drafter, target: TabularTarget, seed: int
) -> tuple[Verdict, tuple[int, ...]]:
    context = Context(Tokens([0, 1]))
    draft = play_draft(drafter, target, context, gamma=2, sampling=SAMPLED, seed=seed)
    scores = Scores(target.open([0, 1]).score(draft), SAMPLED)
    return verifier.verify(draft, scores, SampledChance.seeded(seed)), draft.parents


def _keeps_word(
    verifier: Verifier,
    probs: Distribution,
    target: TabularTarget,
    prompt: list[int],
    sampling: Sampling,
    where: str,
) -> None:
    length = len(next(iter(probs)))
    # A ceiling is tightest on the first token, so a lossy rule answers for every prefix.
    for known in (length,) if verifier.lossless else range(1, length + 1):
        prefixes: Distribution = defaultdict(float)
        for text, p in probs.items():
            prefixes[text[:known]] += p
        for text, bound in target_distribution(target, prompt, known, sampling, verifier).items():
            p = prefixes[text]
            over = abs(p - bound) if verifier.lossless else p - bound
            if over > TOLERANCE:
                word = "the target's is" if verifier.lossless else "its ceiling is"
                raise AssertionError(
                    f"text {text} comes out with probability {p:.6f}: {word} {bound:.6f} ({where})"
                )


CHECKS = (
    check_output_distribution_keeps_its_word,
    check_loop_distribution_keeps_its_word,
    check_greedy_text_keeps_its_word,
    check_accepts_a_path,
    check_accepts_is_how_often_it_accepts,
    check_draws_only_from_chance,
    check_leaves_distributions_alone,
)
