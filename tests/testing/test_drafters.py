"""Each check of a drafter catches the faulty drafter that was made for it."""

import copy
from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, ClassVar, Self

import pytest
import torch
from scipy.stats import binom
from tiny.parts import held
from torch import Tensor

from outrider import (
    Chance,
    CompositeDrafter,
    Context,
    Draft,
    Drafter,
    DrafterExample,
    Pen,
    SampledChance,
    Target,
    Tokens,
    Verdict,
    decode,
)
from outrider.base.errors import DrafterError, OutriderError
from outrider.contract.composition import faster, redraw
from outrider.contract.context import Features
from outrider.contract.draft import ROOT
from outrider.drafters.hierarchy import Hierarchy
from outrider.drafters.random import Random
from outrider.drafters.suffix import Suffix
from outrider.drafters.token_recycling import TokenRecycling
from outrider.targets.tabular import TabularTarget
from outrider.testing import (
    checks_of,
    drafter_distributions,
    drafter_histories,
    drafters,
    examples,
    parametrize_with_checks,
)
from outrider.testing.chi_square import chi_square
from outrider.testing.tiny_targets import SAMPLED, VOCAB_SIZE
from outrider.verifiers.sample_match import SampleMatch
from outrider.verifiers.token import Token

NEXT_LOGITS = TabularTarget(VOCAB_SIZE, seed=11).logits


class Writer(Drafter):
    """Writes token after token, each as `next` does."""

    def propose(self, context: Context, pen: Pen) -> None:
        text = context.tokens[:]
        while pen.open:
            text.append(self.next(text, pen))

    @abstractmethod
    def next(self, text: list[int], pen: Pen) -> int: ...


class Honest(Writer):
    autoregressive = True

    def next(self, text: list[int], pen: Pen) -> int:
        return pen.draw(TabularTarget(pen.vocab_size, seed=11).logits(text))


class HonestAboutIid(Drafter):
    kind = "iid"

    def propose(self, context: Context, pen: Pen) -> None:
        if pen.gamma and pen.budget > 1:
            logits = TabularTarget(pen.vocab_size, seed=11).logits(context.tokens)
            pen.branch(logits, 2, replacement=True)


class Overreaches(Drafter):
    def propose(self, context: Context, pen: Pen) -> None:
        for _ in range(pen.gamma + 1):
            pen.write(0)


class OutOfVocabulary(Writer):
    def next(self, text: list[int], pen: Pen) -> int:
        return pen.write(pen.vocab_size)


class BranchesUnasked(Drafter):
    def propose(self, context: Context, pen: Pen) -> None:
        if pen.gamma > 1:
            pen.write(0)
            pen.write(1, after=-1)


class GlobalRandomness(Writer):
    def next(self, text: list[int], pen: Pen) -> int:
        return pen.write(int(torch.randint(pen.vocab_size, ())))


class ForgetsToRollBack(Drafter):
    """Keeps its draft as if all of it had been accepted."""

    def __init__(self) -> None:
        self.text: list[int] = []

    def propose(self, context: Context, pen: Pen) -> None:
        self.text += context.tokens[len(self.text) :]
        while pen.open:
            self.text.append(pen.draw(NEXT_LOGITS(self.text)))


class OneBehind(Drafter):
    """Knows the pairs of all tokens but the last, and drops them only for a text without these."""

    def __init__(self) -> None:
        self.known = Tokens([])
        self.after: dict[int, int] = {}

    def propose(self, context: Context, pen: Pen) -> None:
        text = context.tokens
        if self.known.shared(text) < len(self.known):
            self.known, self.after = Tokens([]), {}
        self.known = Tokens(text[:-1]) if len(text) > len(self.known) else self.known
        self.after |= pairwise(self.known)
        token: int | None = text[-1]
        while pen.open and (token := self.after.get(token)) is not None:
            pen.write(token)


class KeyedByLength(Drafter):
    """Keeps what it computed for a text until one of another length comes."""

    length = 0

    def propose(self, context: Context, pen: Pen) -> None:
        if len(context.tokens) != self.length:
            self.length, self.logits = len(context.tokens), NEXT_LOGITS(context.tokens)
        while pen.open:
            pen.draw(self.logits)


class SharesItsCache(Drafter):
    """Its texts know how much of one cache is valid, each by itself."""

    def __init__(self) -> None:
        self.known, self.cache = Tokens([]), list[Tensor]()

    def open(self) -> Self:
        return copy.copy(self)

    def propose(self, context: Context, pen: Pen) -> None:
        del self.cache[self.known.shared(context.tokens) :]
        self.known = Tokens(context.tokens[:])
        while len(self.cache) < len(self.known):
            self.cache.append(NEXT_LOGITS(self.known[: len(self.cache) + 1]))
        while pen.open:
            pen.draw(self.cache[-1])


class KeyedByRowOfTheBatch(Honest):
    """Keeps the first token for each row of a batch until a text of another length comes."""

    def __init__(self) -> None:
        self.rows: dict[tuple[int, int], Tensor] = {}

    def propose_batch(self, pairs: Sequence[tuple[Context, Pen]]) -> None:
        for row, (context, pen) in enumerate(pairs):
            if len(pairs) > 1 and pen.open:
                key, logits = (row, len(context.tokens)), NEXT_LOGITS(context.tokens)
                pen.draw(self.rows.setdefault(key, logits))
            else:
                self.propose(context, pen)


class NeverSeesTheBonus(Honest):
    """Takes its draft for the text if all of it was accepted, without the token after it."""

    drafted: tuple[int, ...] = ()

    def propose(self, context: Context, pen: Pen) -> None:
        text = context.tokens[:]
        text = text[:-1] if text[:-1] == list(self.drafted) else text
        while pen.open:
            text.append(pen.draw(NEXT_LOGITS(text)))
        self.drafted = tuple(text)


class LeaksTheFifthToken(Honest):
    """The fifth token of a draft decides where the next one begins."""

    leaked = 0

    def propose(self, context: Context, pen: Pen) -> None:
        text = context.tokens[:]
        logits = NEXT_LOGITS(text).roll(self.leaked)
        while pen.open:
            text.append(pen.draw(logits))
            logits = NEXT_LOGITS(text)
        if len(pen) > 4:
            self.leaked = pen.token(4)


class KeepsOldStates(Drafter):
    """Never replaces the first hidden states that it saw."""

    needs = frozenset({"hidden_states"})

    def __init__(self) -> None:
        self.state: Tensor | None = None

    def propose(self, context: Context, pen: Pen) -> None:
        if "hidden_states" in context.features and self.state is None:
            self.state = context.features["hidden_states"][-1]
        while self.state is not None and pen.open:
            pen.draw(self.state[: pen.vocab_size])


class SpoilsTheStates(Drafter):
    needs = frozenset({"hidden_states"})

    def propose(self, context: Context, pen: Pen) -> None:
        for states in context.features.values():
            states.zero_()


class SpoilsTheCache(Drafter):
    """Writes into the target's cache when a round is over, and not before."""

    needs = frozenset({"cache"})

    def propose(self, context: Context, pen: Pen) -> None:
        pass

    def observe(self, context: Context, draft: Draft, logits: Tensor, verdict: Verdict) -> None:
        for rows in context.features.values():
            rows.zero_()


class ComputesALayer(Drafter):
    """Hands over what the target's first layer gives for its draft, from a session of its own."""

    needs = frozenset({"cache", "hidden_states.1"})
    wrong = ""

    def bind(self, target: Target) -> None:
        self.target = target

    def propose(self, context: Context, pen: Pen) -> None:
        while pen.open:
            pen.write(1)

    def computed(self, context: Context, draft: Draft) -> dict[str, Tensor]:
        session = self.target.open([*context.tokens, *draft.tokens], self.needs)
        session.score(Draft())
        return {
            name: session.features()[name][-1 - len(draft) :] * (0.9 if name == self.wrong else 1)
            for name in ("keys.0", "values.0", "hidden_states.1")
        }


class ComputesOtherStates(ComputesALayer):
    wrong = "hidden_states.1"


class ComputesOtherKeys(ComputesALayer):
    wrong = "keys.0"


class CountsItsCalls(Drafter):
    def __init__(self) -> None:
        self.calls = 0

    def propose(self, context: Context, pen: Pen) -> None:
        self.calls += 1
        while pen.open:
            pen.write(self.calls % pen.vocab_size)


class Vandal(Drafter):
    def propose(self, context: Context, pen: Pen) -> None:
        ids = held(context.tokens, list)
        ids[0] = 3 - ids[0]


class RollsDice(Writer):
    """Draws with the run's chance by itself, even at temperature 0."""

    def next(self, text: list[int], pen: Pen) -> int:
        return pen.write(chance_of(pen).categorical(torch.ones(pen.vocab_size)))


class SpoilsTheTarget(Drafter):
    """Writes into the target's model."""

    def bind(self, target: Target) -> None:
        self.target = target

    def propose(self, context: Context, pen: Pen) -> None:
        assert isinstance(self.target, TabularTarget)
        self.target.table.neg_()


def chance_of(pen: Pen) -> Chance:
    """Returns the chance that the pen draws with."""
    return pen.sheet.chance


def forge(pen: Pen, token: int, probs: Tensor) -> int:
    """Submits a token under any distribution, past the pen's public methods."""
    pen.submit_drawn([(token, probs)])
    return token


class LiesAboutTemperature(Writer):
    """Draws at one temperature and records the distribution of another."""

    def next(self, text: list[int], pen: Pen) -> int:
        logits = NEXT_LOGITS(text)
        token = chance_of(pen).categorical(logits.softmax(-1))
        return forge(pen, token, (logits * 1.4).softmax(-1))


class DropsTheUnlikely(Drafter):
    """Takes back a token that it drew, because it is unlikely."""

    def propose(self, context: Context, pen: Pen) -> None:
        text = context.tokens[:]
        while pen.open:
            probs = NEXT_LOGITS(text).softmax(-1)
            token = chance_of(pen).categorical(probs)
            if probs[token] < 0.25:
                return
            forge(pen, token, probs)
            text.append(token)


class LiesInLongTexts(LiesAboutTemperature):
    """Lies from `least` tokens of context on."""

    least = 4

    def next(self, text: list[int], pen: Pen) -> int:
        lies = len(text) - len(pen) >= self.least
        return super().next(text, pen) if lies else pen.draw(NEXT_LOGITS(text))


class LiesInVeryLongTexts(LiesInLongTexts):
    least = 12


class LiesFromTheNinthTokenOn(LiesAboutTemperature):
    """Writes eight honest tokens, and lies about those after them."""

    def next(self, text: list[int], pen: Pen) -> int:
        return pen.draw(NEXT_LOGITS(text)) if len(pen) < 8 else super().next(text, pen)


class LiesAtFiveTokens(Writer):
    """Honest at the kit's own vocabulary, and at no other."""

    def next(self, text: list[int], pen: Pen) -> int:
        probs = torch.arange(1.0, pen.vocab_size + 1).double().softmax(-1)
        token = chance_of(pen).categorical(probs)
        return forge(pen, token, probs if pen.vocab_size == VOCAB_SIZE else probs.flip(0))


class MadeForOneVocabulary(Writer):
    """A drafter with a table: it fails at other vocabularies, and so writes nothing wrong."""

    def next(self, text: list[int], pen: Pen) -> int:
        return pen.draw(NEXT_LOGITS(text))


class KnowsTheSampler(Drafter):
    """Writes the token whose coin will be true, where the run samples and does not enumerate."""

    def bind(self, target: Target) -> None:
        self.target = target

    def propose(self, context: Context, pen: Pen) -> None:
        likely = NEXT_LOGITS(context.tokens)
        if isinstance(chance_of(pen), SampledChance) and pen.open:
            probs = likely.softmax(-1)
            forge(pen, int(probs.argmin()), probs)
        while pen.open:
            pen.draw(likely)


class SharesOneUniform(Drafter):
    """Each draw is right by itself, but all come from one random number."""

    def propose(self, context: Context, pen: Pen) -> None:
        probs = torch.full((pen.vocab_size,), 1 / pen.vocab_size, dtype=torch.float64)
        token = chance_of(pen).categorical(probs)
        while pen.open:
            forge(pen, token, probs)


class MixesUpItsBatch(Honest):
    def propose_batch(self, pairs: Sequence[tuple[Context, Pen]]) -> None:
        first = pairs[0][0]
        for _, pen in pairs:
            self.propose(first, pen)


class ForgetsTheSource(Drafter):
    """Remembers a token for each text, whatever the source."""

    def __init__(self) -> None:
        self.first: dict[tuple[int, ...], int] = {}

    def propose(self, context: Context, pen: Pen) -> None:
        text = tuple(context.tokens)
        token = self.first.setdefault(text, context.source[0] if context.source else 0)
        while pen.open:
            pen.write(token)


class ForgetsHowDeepItIs(Honest):
    """Says that it is autoregressive, but grows less certain with depth."""

    def next(self, text: list[int], pen: Pen) -> int:
        return pen.draw(NEXT_LOGITS(text) * 0.7 ** len(pen))


class Observer(Drafter):
    """Drafts by what the target said after each token in this text: honestly, if `honest`."""

    honest = True

    def __init__(self) -> None:
        self.seen: dict[int, Tensor] = {}

    def open(self) -> Self:
        text = copy.copy(self)
        text.seen = {}
        return text

    def propose(self, context: Context, pen: Pen) -> None:
        token = context.tokens[-1]
        while pen.open and token in self.seen:
            logits = self.seen[token][: pen.vocab_size]
            if self.honest:
                token = pen.draw(logits)
            else:
                probs = logits.double().softmax(-1)
                token = chance_of(pen).categorical(probs)
                forge(pen, token, probs.flip(0))
        while pen.open:
            pen.draw(torch.zeros(pen.vocab_size))

    def observe(self, context: Context, draft: Draft, logits: Tensor, verdict: Verdict) -> None:
        self.seen |= zip((context.tokens[-1], *draft.tokens), logits, strict=True)


class LiesAboutWhatItObserved(Observer):
    honest = False


class ObservesStates(Observer):
    """Takes the states of its tokens, rejected ones too, for what the target said."""

    needs = frozenset({"hidden_states.1"})

    def observe_states(self, context: Context, draft: Draft, states: Features) -> None:
        (rows,) = states.values()
        self.seen |= zip((context.tokens[-1], *draft.tokens), rows.clone(), strict=True)

    def observe(self, context: Context, draft: Draft, logits: Tensor, verdict: Verdict) -> None: ...


class NeverForgetsStates(ObservesStates):
    def open(self) -> Self:
        return copy.copy(self)


class OpensItself(Observer):
    def open(self) -> Self:
        return self


class SharesWhatItSaw(Observer):
    """All instances fill one table."""

    pool: ClassVar[dict[int, Tensor]] = {}

    def __init__(self) -> None:
        self.seen = self.pool

    def open(self) -> Self:
        return copy.copy(self)


class Rememberer(Drafter):
    """Draws tokens by how often they were in earlier texts: honestly, if `honest`."""

    honest = True

    def __init__(self) -> None:
        self.past: list[list[int]] = []

    def open(self) -> Self:
        return copy.copy(self)

    def propose(self, context: Context, pen: Pen) -> None:
        seen = [token for text in self.past for token in text]
        logits = torch.bincount(torch.tensor(seen, dtype=torch.int64), minlength=pen.vocab_size)
        probs = logits.double().softmax(-1)
        while pen.open:
            if self.honest:
                pen.draw(probs.log())
            else:
                forge(pen, chance_of(pen).categorical(probs), probs.flip(0))

    def remember(self, context: Context) -> None:
        self.past.append(context.tokens[:])

    @property
    def remembered(self) -> int:
        return len(self.past)

    def forget(self) -> None:
        self.past = []


class LiesByItsMemory(Rememberer):
    honest = False


class MakesItsTextsForget(Rememberer):
    def forget(self) -> None:
        self.past.clear()


class MiscountsItsTexts(Rememberer):
    @property
    def remembered(self) -> int:
        return min(1, len(self.past))


class CountsNoTexts(Rememberer):
    @property
    def remembered(self) -> int:
        return 0


class KeepsItsMemoryFromItsTexts(Rememberer):
    def open(self) -> Self:
        text = copy.copy(self)
        text.past = self.past[:]
        return text


class Siblings(Drafter):
    """Writes two siblings, or two paths, in a way that its kind does not say."""

    def __init__(self, kind: str, write: Callable[[Tensor, Pen], object]) -> None:
        self.kind, self.write = kind, write

    def propose(self, context: Context, pen: Pen) -> None:
        if pen.gamma and pen.budget > 1:
            self.write(NEXT_LOGITS(context.tokens), pen)


def without_repetition(logits: Tensor, pen: Pen) -> None:
    """Forgets `replacement=True`."""
    pen.branch(logits, 2)


def with_repetition(logits: Tensor, pen: Pen) -> None:
    pen.branch(logits, 2, replacement=True)


def second_if_first_is_0(logits: Tensor, pen: Pen) -> None:
    if pen.draw(logits) == 0:
        pen.draw(logits, after=ROOT)


def chosen(logits: Tensor, pen: Pen) -> None:
    for token in logits.topk(2).indices.tolist():
        pen.write(token, after=ROOT)


def from_two_distributions(logits: Tensor, pen: Pen) -> None:
    for row in (logits, -logits):
        pen.draw(row, after=ROOT)


def going_on_differently(logits: Tensor, pen: Pen) -> None:
    """Draws the first tokens alike, and the second ones from two distributions."""
    ends = pen.branch(logits, 2, replacement=True)
    if pen.gamma > 1 and pen.room > 1:
        for end, row in zip(ends, (logits, -logits), strict=True):
            pen.draw(row, after=end)


def branching_later(logits: Tensor, pen: Pen) -> None:
    pen.draw(logits)
    if pen.gamma > 1 and pen.room > 1:
        pen.branch(logits, 2, replacement=True)


def of_two_lengths(logits: Tensor, pen: Pen) -> None:
    """Goes on with the first path alone where the budget ends."""
    for end in pen.branch(logits, min(2, pen.room), replacement=True):
        if pen.gamma > 1 and pen.room:
            pen.draw(logits, after=end)


class LooksAtItsGuess(Writer):
    """Redraws a guess from a distribution that it chose to suit the guess."""

    def next(self, text: list[int], pen: Pen) -> int:
        logits = torch.zeros(pen.vocab_size, dtype=torch.float64)
        guess = faster(pen, 1).draw(logits)
        return redraw(pen, logits if guess else logits - torch.eye(pen.vocab_size)[0])


LIARS = [
    partial(Siblings, "iid", without_repetition),
    partial(Siblings, "iid", second_if_first_is_0),
    partial(Siblings, "distinct", with_repetition),
    partial(Siblings, "deterministic", without_repetition),
    partial(Siblings, "iid", chosen),
    partial(Siblings, "paths", from_two_distributions),
    partial(Siblings, "paths", going_on_differently),
    partial(Siblings, "paths", branching_later),
]


class SaysWhatIsWrong(Drafter):
    examples = (DrafterExample(text=(1,), draft=(2,)),)

    def propose(self, context: Context, pen: Pen) -> None:
        pass


class ForgetsToRemember(Drafter):
    """Chooses between two drafters by the length of the text, and passes on drafting alone."""

    def __init__(self) -> None:
        self.parts = {"copy": Suffix(), "guess": Random()}

    def propose(self, context: Context, pen: Pen) -> None:
        name = "copy" if len(context.tokens) % 2 else "guess"
        self.parts[name].propose(context, pen)


class NeedsLessThanItsPart(CompositeDrafter):
    def __init__(self) -> None:
        super().__init__([NeedsStates()])
        self.needs = frozenset()

    def bind(self, target: Target) -> None: ...

    def propose(self, context: Context, pen: Pen) -> None: ...


class NeedsStates(Drafter):
    needs = frozenset({"hidden_states"})

    def propose(self, context: Context, pen: Pen) -> None: ...


class KeepsTextsFromItsPart(CompositeDrafter):
    def __init__(self) -> None:
        super().__init__([Suffix()])

    def remember(self, context: Context) -> None: ...

    def propose(self, context: Context, pen: Pen) -> None:
        self.parts[0].propose(context, pen)


class LearnsByItsParts(CompositeDrafter):
    """Chooses as `ForgetsToRemember` does, and passes everything on."""

    def __init__(self) -> None:
        super().__init__([Suffix(), Observer()])

    def propose(self, context: Context, pen: Pen) -> None:
        self.parts[len(context.tokens) % 2].propose(context, pen)


class DrawsALatent(Drafter):
    """Draws one of two tables, and its tokens from that one."""

    def propose(self, context: Context, pen: Pen) -> None:
        seed = 11 + pen.latent(torch.tensor([0.25, 0.75], dtype=torch.float64))
        table, text = TabularTarget(pen.vocab_size, seed=seed), context.tokens[:]
        while pen.open:
            text.append(pen.draw(table.logits(text)))


class PassesOverItsLatent(Drafter):
    """Draws a latent again until it likes the token that it then writes."""

    def propose(self, context: Context, pen: Pen) -> None:
        weights = TabularTarget(pen.vocab_size, seed=11).logits(context.tokens).softmax(-1)
        while pen.open:
            token = pen.latent(weights)
            pen.submit_drawn([(token or pen.latent(weights), weights)])


of_drafts, of_texts, of_histories = drafters, drafter_distributions, drafter_histories
CAUGHT: dict[Callable[[Callable[[], Drafter]], Any], Sequence[Callable[[], Drafter]]] = {
    of_drafts.check_stays_within_gamma: [Overreaches, OutOfVocabulary],
    of_drafts.check_siblings_are_of_the_declared_kind: [BranchesUnasked, *LIARS],
    of_drafts.check_paths_are_of_one_length: [partial(Siblings, "paths", of_two_lengths)],
    of_drafts.check_draws_only_from_chance: [GlobalRandomness],
    of_drafts.check_depends_only_on_context: [ForgetsToRollBack, CountsItsCalls, KeepsOldStates],
    of_drafts.check_goes_back_to_a_shorter_text: [OneBehind, KeyedByLength, SharesItsCache],
    of_drafts.check_follows_what_was_accepted: [NeverSeesTheBonus, LeaksTheFifthToken],
    of_drafts.check_leaves_the_context_alone: [SpoilsTheStates, SpoilsTheCache, Vandal],
    of_drafts.check_what_it_computed_is_the_targets: [ComputesOtherStates, ComputesOtherKeys],
    of_drafts.check_is_deterministic_when_greedy: [RollsDice],
    of_drafts.check_greedy_text_is_the_targets: [SpoilsTheTarget],
    of_drafts.check_batched_drafts_equal_single_ones: [KeyedByRowOfTheBatch, MixesUpItsBatch],
    of_texts.check_tokens_follow_recorded_distributions: [
        *(LiesAboutTemperature, DropsTheUnlikely, LiesInLongTexts, LiesFromTheNinthTokenOn),
        *(LooksAtItsGuess, SharesOneUniform, PassesOverItsLatent),
    ],
    of_texts.check_long_contexts: [LiesInLongTexts, LiesInVeryLongTexts],
    of_texts.check_other_vocabularies: [LiesAtFiveTokens],
    of_texts.check_sampled_texts_have_the_targets_distribution: [KnowsTheSampler],
    of_texts.check_is_autoregressive_if_it_says_so: [ForgetsHowDeepItIs],
    of_texts.check_output_distribution_is_the_targets: [LiesAboutTemperature, DropsTheUnlikely],
    of_texts.check_the_source_is_part_of_the_context: [ForgetsTheSource, LiesAboutTemperature],
    of_histories.check_observations_leave_the_text_exact: [LiesAboutWhatItObserved],
    of_histories.check_observations_end_with_the_text: [
        *(NeverForgetsStates, OpensItself, SharesWhatItSaw),
    ],
    of_histories.check_memory_leaves_the_text_exact: [LiesByItsMemory],
    of_histories.check_memory_is_shared_by_texts: [
        *(MakesItsTextsForget, MiscountsItsTexts, KeepsItsMemoryFromItsTexts),
    ],
    of_histories.check_memory_tells_nothing_of_a_seed: [CountsNoTexts],
    of_histories.check_its_parts_are_told_all: [
        *(ForgetsToRemember, NeedsLessThanItsPart, KeepsTextsFromItsPart),
    ],
    examples.check_its_examples_of_drafts_hold: [SaysWhatIsWrong],
}
FAULTY = [(part, check) for check, parts in CAUGHT.items() for part in parts]


@pytest.mark.parametrize(("part", "check"), FAULTY)
def test_the_check_catches_its_faulty_part(
    part: Callable[[], Drafter], check: Callable[[Callable[[], Drafter]], None]
) -> None:
    with pytest.raises((AssertionError, OutriderError)):
        check(part)


def test_every_check_has_a_faulty_part() -> None:
    assert {check for _, check in FAULTY} == {
        check for part, _ in FAULTY for check in checks_of(part)
    }


@pytest.mark.parametrize(
    ("part", "check"),
    [
        (LiesInVeryLongTexts, drafter_distributions.check_every_length),
        (LiesAtFiveTokens, drafter_distributions.check_large_vocabularies),
    ],
)
def test_the_thorough_check_catches_its_faulty_part(
    part: type[Drafter], check: Callable[[Callable[[], Drafter]], str | None]
) -> None:
    check(Honest)
    with pytest.raises(AssertionError):
        check(part)


def test_a_drafter_may_hand_over_the_states_of_a_layer() -> None:
    drafters.check_what_it_computed_is_the_targets(ComputesALayer)
    drafters.check_greedy_text_is_the_targets(ComputesALayer)


def test_a_long_history_is_checked_if_asked_for() -> None:
    drafter_histories.check_observations_over_more_rounds(TokenRecycling)


def test_a_drafter_that_is_made_for_one_vocabulary_is_told_so() -> None:
    line = drafter_distributions.check_other_vocabularies(MadeForOneVocabulary)
    assert line == "no draft for a vocabulary of 3: gave logits of shape (4,): expected (3,)"


def redrawn_from_p(guess: int, q: Tensor, probs: Tensor, chance: Chance) -> int:
    """Replaces a guess that is not kept by a draw from p, in place of norm(max(0, p - q))."""
    if chance.coins((probs[guess] / q[guess])[None])[0]:
        return guess
    return chance.categorical(probs)


def test_a_wrong_residual_of_redrawn_guesses_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("outrider.contract.composition.kept_or_redrawn", redrawn_from_p)
    with pytest.raises(AssertionError, match="draws token"):
        drafter_distributions.check_tokens_follow_recorded_distributions(
            partial(Hierarchy, "random")
        )


@parametrize_with_checks(
    [Honest, HonestAboutIid, ObservesStates, Rememberer, DrawsALatent, LearnsByItsParts]
)
def test_an_honest_drafter_passes(
    make: Callable[[], Drafter], check: Callable[[Callable[[], Drafter]], None]
) -> None:
    check(make)


@pytest.mark.parametrize("liar", [LIARS[0], LIARS[-1]])
def test_decoding_refuses_siblings_of_another_kind(liar: Callable[[], Drafter]) -> None:
    target, rule = TabularTarget(VOCAB_SIZE), SampleMatch()
    rounds = decode(target, liar(), rule, [0], gamma=3, budget=6, sampling=SAMPLED)
    with pytest.raises(DrafterError, match=r"drafter Siblings says kind='\w+', but tokens? \d"):
        list(rounds)


class Peeks(Drafter):
    """Copies the pen's generators, and writes the token whose coin it expects to be true."""

    def bind(self, target: Target) -> None:
        self.target = target

    def propose(self, context: Context, pen: Pen) -> None:
        assert isinstance(self.target, TabularTarget)
        probs = self.target.logits(context.tokens).softmax(-1)
        ahead = copy.deepcopy(chance_of(pen))
        (accepted,) = ahead.coins(probs[:1])
        pen.write(0 if accepted else 1)


class OneForAll(Chance):
    """One generator for pen and rule, as no run has it."""

    def __init__(self, seed: int) -> None:
        self._chance = SampledChance.seeded(seed)

    def coins(self, probs: Tensor) -> list[bool]:
        return self._chance.coins(probs)

    def categorical(self, probs: Tensor) -> int:
        return self._chance.categorical(probs)


@pytest.mark.parametrize("shared", [False, True])
def test_a_copy_of_the_pens_generators_tells_nothing_about_acceptance(shared: bool) -> None:
    """The text has the target's distribution, by exact binomial intervals; shared, it would not."""
    target, count = TabularTarget(3, sharpness=0.5), 600
    counts = [0] * 3
    for number in range(count):
        chance = OneForAll(number) if shared else None
        options = {"chance": chance, "number": number, "max_new_tokens": 2}
        rounds = decode(target, Peeks(), Token(), [0, 1], gamma=1, sampling=SAMPLED, **options)
        counts[next(rounds).tokens[0]] += 1
    right = []
    for token, p in enumerate(target.logits([0, 1]).softmax(-1).tolist()):
        low, high = binom.interval(1 - 1e-9, count, p)
        right.append(low <= counts[token] <= high)
    assert all(right) != shared


def test_chi_square_is_the_known_survival_function() -> None:
    """With 15 degrees of freedom a statistic of 56.49 has 1e-6."""
    counts = torch.full((16,), 100.0, dtype=torch.float64)
    step = (56.49 * 100 / 2) ** 0.5
    counts[0] += step
    counts[1] -= step
    assert chi_square(counts, torch.full((16,), 1 / 16)) == pytest.approx(1e-6, rel=0.01)
