"""Alpha is the overlap of p and q, and predicts what decoding counts; both are computed exactly."""

import itertools
from collections.abc import Callable, Iterator
from typing import Any, final

import numpy as np
import pytest
import torch
from tiny.drafters import bound, tokens_of

from outrider import Chance, Context, Draft, Drafter, Pen, Policy, Sampling, Verifier, decode
from outrider.contract.draft import Verdict
from outrider.contract.policy import Fixed
from outrider.contract.round import Counts
from outrider.contract.verifier import Scores
from outrider.drafters.lookahead_decoding import LookaheadDecoding
from outrider.drafters.ngram import bigram
from outrider.drafters.none import NoDraft
from outrider.drafters.prompt_lookup import PromptLookup
from outrider.drafters.random import Random
from outrider.drafters.token_recycling import TokenRecycling
from outrider.lab.measuring.measurement import Overlap, Step
from outrider.lab.measuring.overlap import overlap
from outrider.lab.measuring.reference import reference
from outrider.lab.statistics.acceptance import at_gamma, ends_by_depth
from outrider.policies.confidence import Confidence
from outrider.policies.entropy import Entropy
from outrider.policies.heuristic import Heuristic
from outrider.targets.tabular import TabularTarget
from outrider.targets.transformers import TransformersTarget
from outrider.testing.enumerated import EnumeratedChance
from outrider.testing.table_drafters import ChainDrafter, TreeDrafter
from outrider.testing.tiny_targets import draft_after
from outrider.verifiers.block import Block
from outrider.verifiers.ceiling import acceptance_ceiling
from outrider.verifiers.k_seq import KSeq
from outrider.verifiers.lenient import Lenient, ScaledUniform
from outrider.verifiers.multi_path_block import MultiPathBlock
from outrider.verifiers.optimal_transport import OptimalTransport
from outrider.verifiers.recursive import Candidates, MultiStep, WithoutReplacement
from outrider.verifiers.sample_match import Rejection, SampleMatch
from outrider.verifiers.token import Token
from outrider.verifiers.traversal import Traversal
from outrider.verifiers.typical import Typical

TARGET = TabularTarget(6, seed=2)
PROMPT, TEXT = [0, 1], [3, 2, 5, 5, 0, 1]
SAMPLED = Sampling(temperature=1.0)
PREFIXES = [[*PROMPT, *TEXT[:t]] for t in range(len(TEXT))]


def overlapped(drafter: Drafter, sampling: Sampling = SAMPLED, gamma: int = 2) -> Overlap:
    drafter.bind(TARGET)
    return overlap(reference(TARGET, PROMPT, TEXT), drafter, Token(), sampling, gamma)


def totals_of(sums: Overlap, gamma: int = 0) -> tuple[float, ...]:
    """Returns the expected rounds, tested and accepted tokens at a gamma, or at the last."""
    return tuple(values[gamma - 1] for values in (sums.rounds, sums.tested, sums.accepted))


def alpha(drafter: Drafter, sampling: Sampling) -> float:
    sums = overlapped(drafter, sampling)
    return sums.beta[0] / sums.prefixes[0]


def test_the_reference_holds_the_logits_at_each_prefix() -> None:
    text = reference(TARGET, PROMPT, TEXT)
    assert text.ids == PROMPT + TEXT
    assert not text.ended
    for row, prefix in enumerate(PREFIXES):
        assert torch.equal(text.logits[row], TARGET.open(prefix).score(Draft())[0])


@pytest.mark.parametrize("sampling", [SAMPLED, Sampling(temperature=0.5, top_k=3), Sampling()])
def test_alpha_is_the_mean_of_the_smaller_of_p_and_q(sampling: Sampling) -> None:
    other = TabularTarget(6, 2, 7, sharpness=2.5)  # the table of the drafter
    pairs = [
        [sampling.probs(each.logits(prefix)) for each in (TARGET, other)] for prefix in PREFIXES
    ]
    expected = sum(float(p.minimum(q).sum()) for p, q in pairs) / len(PREFIXES)
    assert alpha(ChainDrafter(TARGET, "drawn"), sampling) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("sampling", [SAMPLED, Sampling()])
def test_each_token_of_the_text_has_its_p_and_q(sampling: Sampling) -> None:
    other = TabularTarget(6, 2, 7, sharpness=2.5)  # the table of the drafter
    sums = overlapped(ChainDrafter(TARGET, "drawn"), sampling)
    assert sums.text == tuple(TEXT)
    for shown, model in ((sums.text_p, TARGET), (sums.text_q, other)):
        expected = [
            float(model.logits(prefix).softmax(-1)[token])
            for prefix, token in zip(PREFIXES, TEXT, strict=True)
        ]
        assert shown == pytest.approx(expected, abs=1e-12)
    assert overlapped(NoDraft()).text_q == (None,) * len(TEXT)


@pytest.mark.parametrize("sampling", [SAMPLED, Sampling()])
def test_the_acceptance_of_the_runs_rule_is_taken_at_each_prefix(sampling: Sampling) -> None:
    drafter = ChainDrafter(TARGET, "drawn")
    probs = TabularTarget(6, 2, 7, sharpness=2.5)
    for rule in (Token(), SampleMatch(), Lenient(0.4), Typical(0.3)):
        sums = overlap(reference(TARGET, PROMPT, TEXT), drafter, rule, sampling, 2)
        expected = beyond = 0.0
        for prefix in PREFIXES:
            q = sampling.probs(probs.logits(prefix))
            scores = Scores(TARGET.logits(prefix)[None], sampling)
            rates = rule.accepts(q, scores, -1)
            expected += float((q * rates).sum())
            for kept, p in zip((q * rates).tolist(), scores.after(-1).tolist(), strict=True):
                beyond += max(0.0, kept - p)
        assert sums.by_rule == pytest.approx(expected, abs=1e-12)
        if rule.lossless:
            assert sums.overshoot is None
        else:
            assert sums.overshoot == pytest.approx(beyond, abs=1e-12)


class Head(Drafter):
    """Reads the states of the target: the logits that it gave before the newest token."""

    needs = frozenset({"hidden_states"})

    def propose(self, context: Context, pen: Pen) -> None:
        if len(states := context.features.get("hidden_states", ())):
            pen.draw(states[-1])


@pytest.mark.parametrize("sampling", [SAMPLED, Sampling()])
def test_the_control_has_states_one_token_behind_or_a_shuffled_vocabulary(
    sampling: Sampling,
) -> None:
    order = torch.randperm(6, generator=torch.Generator().manual_seed(0))
    table = TabularTarget(6, 2, 7, sharpness=2.5)
    text = reference(TARGET, PROMPT, TEXT, frozenset({"hidden_states"}))
    for drafter in (Head(), ChainDrafter(TARGET, "drawn")):
        drafter.bind(TARGET)
        sums = overlap(text, drafter, Token(), sampling, 2)
        expected = 0.0
        for row, prefix in enumerate(PREFIXES):
            p = sampling.probs(TARGET.logits(prefix))
            q = sampling.probs(table.logits(prefix))[order]
            if isinstance(drafter, Head):
                q = sampling.probs(TARGET.logits(prefix[:-2])) if row else torch.zeros(6)
            expected += float(p.minimum(q).sum())
        assert sums.control == (pytest.approx(expected, abs=1e-12), len(TEXT))


@pytest.mark.parametrize("kind", ["paths", "iid", "distinct", "deterministic"])
def test_the_ceiling_of_a_tree_is_that_of_its_first_tokens(kind: str) -> None:
    drafter = TreeDrafter(TARGET, kind)
    sums = overlap(reference(TARGET, PROMPT, TEXT), drafter, Traversal(), SAMPLED, 1, budget=2)
    expected = 0.0
    for prefix in PREFIXES:
        draft = draft_after(drafter, TARGET, prefix, 1)
        p = TARGET.logits(prefix).softmax(-1)
        ceiling = acceptance_ceiling(draft, -1, p, kind)
        expected += ceiling
    assert sums.ceiling == pytest.approx((expected, len(TEXT)), abs=1e-12)
    assert sums.beta == (0,)


class Stepwise(Drafter):
    """Wraps a drafter so that it drafts step by step."""

    def __init__(self, inner: Drafter) -> None:
        self.propose = inner.propose  # type: ignore[method-assign]

    def propose(self, context: Context, pen: Pen) -> None:
        raise NotImplementedError


def test_one_pass_says_the_same_of_an_autoregressive_drafter() -> None:
    guesses = Random()
    for gamma, sampling in itertools.product((1, 4, 9), (SAMPLED, Sampling())):
        led = overlapped(Stepwise(guesses), sampling, gamma)
        slid = overlapped(guesses, sampling, gamma)
        for field in ("prefixes", "reached", "beta", "rounds", "tested", "accepted"):
            assert getattr(slid, field) == pytest.approx(getattr(led, field), abs=1e-12)


LITTLE = TabularTarget(2, seed=4)
LENGTH = 4


def texts(prompt: list[int], length: int) -> Iterator[tuple[float, list[int]]]:
    """Yields each text of the little target with its probability."""
    for text in itertools.product(range(2), repeat=length):
        p = 1.0
        for position, token in enumerate(text):
            p *= float(LITTLE.logits([*prompt, *text[:position]]).softmax(-1)[token])
        yield p, list(text)


DRAFTERS: list[Callable[[], Drafter]] = [
    *(
        lambda kind=kind: ChainDrafter(LITTLE, kind)
        for kind in ("drawn", "written", "mixed", "exact", "disjoint", "silent", "short")
    ),
    PromptLookup,
    bigram,
    Random,
]


def tally(steps: list[Step], gamma: int) -> list[float]:
    """Returns rounds, tested and accepted, and how many drafts survived and ended by depth."""
    by_depth = (np.pad(counts, (0, gamma + 1))[: gamma + 1] for counts in ends_by_depth(steps))
    survived, ended = by_depth
    return [
        len(steps), sum(step.tested for step in steps), sum(step.accepted for step in steps),
        *survived[:gamma], *ended[:gamma],
    ]  # fmt: skip


def expected(drafter: Drafter, rule: Verifier, policy: Policy, gamma: int) -> np.ndarray:
    """Returns the same as the distributions predict it, over all texts of the little target."""
    total = np.zeros(3 + 2 * gamma)
    for p, text in texts(START, LENGTH):
        written = reference(LITTLE, START, text)
        sums = overlap(written, drafter, rule, SAMPLED, gamma, policy=policy)
        survived, ended = (at_gamma(field, gamma) for field in (sums.survived, sums.ended))
        total += p * np.array([*totals_of(sums), *survived[:gamma], *ended[:gamma]])
    return total


def counted(drafter: Drafter, rule: Verifier, policy: Policy, gamma: int) -> np.ndarray:
    """Returns the same as decoding counts, over every branch of every random decision."""

    def play(chance: Chance) -> list[float]:
        options = {"gamma": gamma, "sampling": SAMPLED, "policy": policy, "chance": chance}
        rounds = decode(LITTLE, drafter, rule, START, **options, max_new_tokens=LENGTH)
        return tally([Step.of(round) for round in rounds], gamma)

    total = np.zeros(3 + 2 * gamma)
    for p, counts in EnumeratedChance.outcomes(play):
        total += p * np.array(counts)
    return total


START = [0, 1, 0]


@pytest.mark.parametrize("make", DRAFTERS)
@pytest.mark.parametrize("gamma", [1, 2, 3])
def test_the_distributions_give_the_counts_of_decoding_exactly(
    make: Callable[[], Drafter], gamma: int
) -> None:
    """The mean over all texts of what a text is expected to take is the mean over all runs."""
    drafter = bound(make(), LITTLE)
    arguments = (drafter, Token(), Fixed(), gamma)
    assert expected(*arguments) == pytest.approx(counted(*arguments), abs=1e-12)


@final
class Short(Policy):
    """Drafts one token less than it may."""

    def depth(self, gamma: int) -> int:
        return gamma - 1


@final
class Untold(Verifier):
    """A rule that does not say how likely it accepts a token."""

    lossless = True

    def verify(self, draft: Draft, scores: Scores, chance: Chance) -> Verdict:
        return Token().verify(draft, scores, chance)


BLOCKWISE = (Block(), MultiPathBlock(), Traversal())
TOKENWISE = (Lenient(1.0), Candidates(), KSeq(), MultiStep(), OptimalTransport())


@pytest.mark.parametrize(
    "rule",
    [SampleMatch(), Rejection(), ScaledUniform(1.5), *TOKENWISE, WithoutReplacement(), *BLOCKWISE],
    ids=lambda rule: type(rule).__name__,
)
def test_the_expected_counts_are_those_of_the_runs_own_rule(rule: Verifier) -> None:
    """Every rule was given the token rule's tokens per call."""
    drafter = ChainDrafter(LITTLE, "drawn")
    own = expected(drafter, rule, Fixed(), 2)
    assert own == pytest.approx(counted(drafter, rule, Fixed(), 2), abs=1e-12)
    same = isinstance(rule, (*map(type, TOKENWISE), WithoutReplacement))
    assert (own == pytest.approx(expected(drafter, Token(), Fixed(), 2), abs=1e-6)) == same


def little(kind: str) -> Drafter:
    """Returns a drafter of the little target, "bigram" or of a table."""
    return bound(bigram(), LITTLE) if kind == "bigram" else ChainDrafter(LITTLE, kind)


@pytest.mark.parametrize("kind", ["drawn", "mixed", "written", "short", "disjoint", "bigram"])
def test_the_expected_counts_of_block_verification_are_exact(kind: str) -> None:
    """They were missing, because the rule decides over all tokens of a draft together."""
    drafter = little(kind)
    for policy in (Fixed(), Confidence(0.6)):
        own = expected(drafter, Block(), policy, 3)
        assert own == pytest.approx(counted(drafter, Block(), policy, 3), abs=1e-12)
    fewer = expected(drafter, Block(), Fixed(), 3)[0] - expected(drafter, Token(), Fixed(), 3)[0]
    assert fewer < -1e-3 if kind in ("drawn", "mixed") else fewer < 1e-12 or kind == "bigram"


@pytest.mark.parametrize(
    "policy", [Short(), Confidence(0.6), Entropy(scale=1.0, limit=0.35, target=None)]
)
@pytest.mark.parametrize("kind", ["drawn", "mixed", "bigram"])
def test_the_expected_counts_are_those_of_the_runs_own_policy(policy: Policy, kind: str) -> None:
    """A policy that stops early was given the tokens per call of one that does not."""
    drafter = little(kind)
    own = expected(drafter, Token(), policy, 3)
    assert own == pytest.approx(counted(drafter, Token(), policy, 3), abs=1e-12)
    assert own[0] > expected(drafter, Token(), Fixed(), 3)[0] + 0.01


def test_the_counts_at_every_gamma_are_those_of_a_run_with_that_gamma() -> None:
    drafter, text = ChainDrafter(TARGET, "drawn"), reference(TARGET, PROMPT, TEXT)
    sums = overlap(text, drafter, Token(), SAMPLED, 3, policy=Short())
    for gamma in (1, 2, 3):
        own = overlap(text, drafter, Token(), SAMPLED, gamma, policy=Short())
        assert sums.rounds[gamma - 1] == own.rounds[-1]
        assert at_gamma(sums.survived, gamma) == pytest.approx(at_gamma(own.survived, gamma))
        assert at_gamma(sums.ended, gamma) == pytest.approx(at_gamma(own.ended, gamma))


@pytest.mark.parametrize(
    ("rule", "policy"),
    [(Lenient(0.5), Fixed()), (Untold(), Fixed()), (Token(), Heuristic()), (Token(), Entropy())],
)
def test_values_without_a_formula_are_left_out(rule: Verifier, policy: Policy) -> None:
    """The texts of a lossy rule are not the target's, and a policy that learns has a past."""
    drafter = ChainDrafter(TARGET, "drawn")
    sums = overlap(reference(TARGET, PROMPT, TEXT), drafter, rule, SAMPLED, 2, policy=policy)
    assert sums.rounds == sums.tested == sums.accepted == (0, 0)
    assert sums.beta == overlapped(drafter).beta  # alpha is the drafter's


@pytest.mark.parametrize("make", DRAFTERS)
def test_beta_by_depth_is_the_probability_that_a_draft_is_accepted_so_far(
    make: Callable[[], Drafter],
) -> None:
    prompt, gamma = [0, 1, 0], 3
    drafter = bound(make(), LITTLE)
    expected = [0.0] * gamma
    for p, text in texts(prompt, gamma):
        one = reference(LITTLE, prompt, text)
        # At the first prefix alone: what all prefixes add up to, less the same without it.
        rest = reference(LITTLE, [*prompt, text[0]], text[1:])
        whole = overlap(one, drafter, Token(), SAMPLED, gamma).beta
        later = overlap(rest, drafter, Token(), SAMPLED, gamma).beta
        for depth in range(gamma):
            expected[depth] += p * (whole[depth] - later[depth])

    def play(chance: Chance) -> int:
        round = next(
            decode(LITTLE, drafter, Token(), prompt, gamma=gamma, sampling=SAMPLED, chance=chance)
        )
        return round.accepted

    survived = [0.0] * gamma
    for p, accepted in EnumeratedChance.outcomes(play):
        for depth in range(accepted):
            survived[depth] += p
    assert expected == pytest.approx(survived, abs=1e-12)


def test_a_draft_may_hold_the_end_of_a_text_that_ended(llama: Any) -> None:
    """A stop inside a draft: decoding and the distributions agree there too."""
    target = TransformersTarget(llama(num_hidden_layers=1))
    plain = tokens_of(decode(target, NoDraft(), Token(), [3, 4], max_new_tokens=12))
    target.eos = frozenset({plain[-1]})
    text = plain[: plain.index(plain[-1]) + 1]

    class Knows(Drafter):
        def propose(self, context: Context, pen: Pen) -> None:
            for token in text[len(context.tokens) - 2 :]:
                if pen.open:
                    pen.write(token)

    sums = overlap(reference(target, [3, 4], text), Knows(), Token(), Sampling(), 5)
    counts = Counts.of(decode(target, Knows(), Token(), [3, 4], gamma=5, max_new_tokens=40))
    assert totals_of(sums) == (counts.rounds, counts.tested, counts.accepted)


class Watches(Drafter):
    """Copies the text where it sees states, and writes 0 where it sees none."""

    needs = frozenset({"hidden_states"})

    def __init__(self) -> None:
        self.seen: dict[int, int | None] = {}

    def propose(self, context: Context, pen: Pen) -> None:
        states = context.features.get("hidden_states")
        self.seen[len(context.tokens)] = None if states is None else len(states)
        while pen.open:
            pen.write(0 if states is None else context.tokens[0])


def test_a_drafter_sees_the_features_of_decoding(llama: Any) -> None:
    """At the first position of a text there are none, because the target has read nothing."""
    target = TransformersTarget(llama(num_hidden_layers=1))
    replayed, decoding = Watches(), Watches()
    rounds = list(decode(target, NoDraft(), Token(), [3, 4], max_new_tokens=12))
    text = tokens_of(rounds)
    text_of = reference(target, [3, 4], text, replayed.needs)
    sums = overlap(text_of, replayed, Token(), Sampling(), 3)
    counts = Counts.of(decode(target, decoding, Token(), [3, 4], gamma=3, max_new_tokens=12))
    assert decoding.seen == {length: replayed.seen[length] for length in decoding.seen}
    assert replayed.seen[2] is None and replayed.seen[3] == 2
    assert totals_of(sums) == (counts.rounds, counts.tested, counts.accepted)


@pytest.mark.parametrize("drafter", [TokenRecycling(), LookaheadDecoding()])
def test_drafts_that_follow_from_earlier_rounds_have_no_overlap(drafter: Drafter) -> None:
    sums = overlapped(drafter)
    assert not any((*sums.prefixes, *sums.reached, *sums.rounds, *sums.ceiling))
