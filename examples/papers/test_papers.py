"""Each method keeps what its paper claims, or the enumeration says how far it is off."""

import itertools
from collections import defaultdict
from functools import partial

import pytest
import torch

from outrider import Draft, Sampling, Scores, decode
from outrider.drafters.ngram import bigram
from outrider.targets.tabular import TabularTarget
from outrider.testing import parametrize_with_checks
from outrider.testing.enumerated import EnumeratedChance
from outrider.verifiers.token import Token

from outrider_papers.asd import ASD
from outrider_papers.diffusion import Diffusion
from outrider_papers.dloop import DLoop
from outrider_papers.latent_block import LatentBlock
from outrider_papers.nucleus import Nucleus
from outrider_papers.poisson import Poisson
from outrider_papers.replayed import Replayed
from outrider_papers.rheo import Rheo
from outrider_papers.slrs import SLRS
from outrider_papers.treespark import TreeSpark

DRAFTERS = [Replayed, Rheo, TreeSpark, DLoop, LatentBlock, Diffusion, SLRS]
VERIFIERS = [Nucleus, ASD, partial(ASD, budget=0), Poisson]
SAMPLED = Sampling(temperature=1.0)
TARGET = TabularTarget(3)


@parametrize_with_checks([*DRAFTERS, *VERIFIERS])
def test_a_method_keeps_the_contract(make, check):
    check(make)


def text_law(drafts):
    """Returns the distribution of two tokens, by the token rule and then the target itself.

    drafts: the probability of each draft of two tokens, and the draft.
    """
    law = defaultdict(float)
    for share, draft in drafts:
        texts = [[], list(draft.tokens[:1]), list(draft.tokens)]
        scores = Scores(torch.stack([TARGET.logits(text) for text in texts]), SAMPLED)
        for p, verdict in EnumeratedChance.outcomes(partial(Token().verify, draft, scores)):
            text = [*(draft.tokens[node] for node in verdict.accepted), verdict.next_token]
            ends = TARGET.logits(text[:1]).softmax(-1) if len(text) == 1 else torch.ones(1)
            for token, rest in enumerate(ends.tolist()):
                law[tuple([*text, token][:2])] += share * p * rest
    return law


def off_by(drafts):
    """Returns the total variation of two tokens from the target's."""
    law, p = text_law(drafts), TARGET.logits([]).softmax(-1)
    texts = itertools.product(range(3), repeat=2)
    return (
        sum(abs(law[a, b] - float(p[a] * TARGET.logits([a]).softmax(-1)[b])) for a, b in texts) / 2
    )


@pytest.mark.parametrize(("from_the_left", "expected"), [(True, 0.0), (False, 0.062)])
def test_a_block_that_is_revealed_from_the_right_is_not_exact(from_the_left, expected):
    joint = torch.randn(3, 3, generator=torch.Generator().manual_seed(1)).double()
    joint = (2 * joint).flatten().softmax(0).view(3, 3)
    drafts = []
    for a, b in itertools.product(range(3), repeat=2):
        if from_the_left:
            q = joint.sum(1), joint[a] / joint[a].sum()
        else:  # the second place was drawn first
            q = joint[:, b] / joint[:, b].sum(), joint.sum(0)
        drafts.append((float(joint[a, b]), Draft((a, b), (-1, 0), q)))
    assert off_by(drafts) == pytest.approx(expected, abs=1e-3 if expected else 1e-12)


SPELLED = {"a": 0.6, "b": 0.4, "ab": 0.24}
"""How likely a drafter of letters, with a of .6 and b of .4, spells each token of the target."""
BEGUN = {"a": 0.36, "b": 0.4, "ab": 0.24}
"""How likely two of its letters are tokens of the target that begin with each one."""


@pytest.mark.parametrize(("psi", "expected"), [(BEGUN, 0.0), (SPELLED, 0.12)])
def test_string_level_rejection_is_exact_with_the_sum_over_all_that_follows(psi, expected):
    p = {"a": 0.3, "b": 0.3, "ab": 0.4}
    law, rejected = dict.fromkeys(p, 0.0), 0.0
    for one, two in itertools.product("ab", repeat=2):
        token = "ab" if one + two == "ab" else one
        share, kept = SPELLED[one] * SPELLED[two], min(1, p[token] / psi[token])
        law[token] += share * kept
        rejected += share * (1 - kept)
    rest = {token: p[token] - min(p[token], psi[token]) for token in p}
    law = {token: law[token] + rejected * rest[token] / sum(rest.values()) for token in p}
    assert sum(abs(law[token] - p[token]) for token in p) / 2 == pytest.approx(expected)


def test_the_error_of_a_step_is_the_excess_in_the_nucleus():
    for seed in range(20):
        generator = torch.Generator().manual_seed(seed)
        logits, q = torch.randn(2, 6, generator=generator, dtype=torch.float64)
        q, rule = q.softmax(-1), Nucleus(0.7)
        scores = Scores(torch.stack([logits, logits]), SAMPLED)
        p, law = scores.after(-1), torch.zeros(6, dtype=torch.float64)
        for token in range(6):
            draft = Draft((token,), (-1,), (q,))
            for share, verdict in EnumeratedChance.outcomes(partial(rule.verify, draft, scores)):
                law[token if verdict.accepted else verdict.next_token] += q[token] * share
        excess = (q - p).clamp(min=0)[rule.nucleus(p)].sum()
        assert float((law - p).abs().sum() / 2) == pytest.approx(float(excess), abs=1e-12)


@pytest.mark.parametrize("budget", [0.3, 2.0])
def test_the_regret_of_a_text_stays_within_its_budget(budget):
    target, spent = TabularTarget(6), []
    for prompt in itertools.product(range(6), repeat=2):
        rule = ASD(budget=budget, gain=9, most=9)
        rounds = decode(target, bigram(), rule, prompt, gamma=4, max_new_tokens=30)
        text = [*prompt, *(token for each in rounds for token in each.tokens)]
        rows = [target.logits(text[:end]) for end in range(2, len(text))]
        pairs = zip(rows, text[2:], strict=True)
        spent.append(sum(float(row.max() - row[token]) for row, token in pairs))
    assert 0 < max(spent) <= budget
