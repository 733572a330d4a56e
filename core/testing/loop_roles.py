"""Facts about the loop's parts: what drafter and rule are shown, and whose noise they have."""

from collections.abc import Sequence
from typing import final

from torch import Tensor

from outrider.contract.chance import DRAFTER, TARGET, Chance
from outrider.contract.context import Context
from outrider.contract.draft import Draft
from outrider.contract.drafter import Drafter
from outrider.contract.pen import Pen
from outrider.contract.target import Session, Target
from outrider.contract.verifier import Scores, Verdict, Verifier
from outrider.decoding.decode import decode, decode_together
from outrider.testing.facts import assert_is
from outrider.testing.loops import PROMPT, Copies, greedy_text, target
from outrider.testing.stage import SAMPLED
from outrider.testing.staged_drafters import ChainDrafter
from outrider.verifiers.gumbel import Gumbel
from outrider.verifiers.token import Token


def assert_noise() -> None:
    """Asserts that drafts share the noise of a coupled rule, and have their own under others."""
    for rule, expected in (
        (Token(), [(DRAFTER, "token")] * 2 + [(TARGET, "coins"), (TARGET, "token")]),
        (Gumbel(), [(TARGET, position) for position in (2, 3, 2, 3, 4)]),
    ):
        asked: list[tuple[str, object]] = []
        drafter = ChainDrafter(target(), "exact")
        rounds = decode(
            target(), drafter, rule, PROMPT,
            gamma=2, sampling=SAMPLED, chance=_Listed("", asked), max_new_tokens=9,
        )  # fmt: skip
        next(rounds)
        assert_is(f"whose noise decides under {type(rule).__name__}", asked, expected)
        assert_is("tokens of a round of an exact draft", len(next(rounds).tokens), 3)


def assert_shown() -> None:
    """Asserts that a lossy rule sees the text before the draft."""
    rule, text = _Sees(), greedy_text()
    list(decode(target(), Copies(text), rule, PROMPT, gamma=2, max_new_tokens=3))
    assert_is("the texts that a lossy rule is shown", rule.seen, [text[:2], text[:3], text[:4]])


def assert_heard() -> None:
    """Asserts that a drafter hears what it asked for, and of the beginning and end of texts."""
    drafter, text = _Hears(), greedy_text()
    for _ in range(2):
        list(decode(target(), drafter, Token(), PROMPT, gamma=2, max_new_tokens=2))
    assert_is("how often a drafter is reset for two texts", drafter.resets, 2)
    assert_is("the texts that a drafter remembers", drafter.texts, [text[:4], text[:4]])
    assert_is("how many texts a drafter hears of", len(drafter.heard), 12)
    for read, logits in drafter.heard:
        expected = target().logits(read).tolist()
        assert_is(f"the logits that a drafter hears after {read}", logits.tolist(), expected)


def assert_needs() -> None:
    """Asserts that a batch is opened with what any of its drafters needs."""
    offering = _Offers()
    drafters = [_Needs("first"), _Needs("second")]
    next(decode_together(offering, drafters, Token(), [PROMPT] * 2))
    assert_is("what a batch is opened with", offering.asked, {"first", "second"})


@final
class _Listed(Chance):
    """Takes the likeliest value of each decision, and lists whose it was."""

    def __init__(self, name: str, asked: list[tuple[str, object]]) -> None:
        self._name, self._asked = name, asked

    def named(self, name: str) -> Chance:
        return _Listed(name, self._asked)

    def coins(self, probs: Tensor) -> list[bool]:
        self._asked.append((self._name, "coins"))
        return [p >= 0.5 for p in probs.tolist()]

    def categorical(self, probs: Tensor) -> int:
        self._asked.append((self._name, "token"))
        return int(probs.argmax())

    def race(self, probs: Tensor, position: int) -> int:
        self._asked.append((self._name, position))
        return int(probs.argmax())


@final
class _Sees(Verifier):
    """Accepts nothing, and lists the texts that it is shown."""

    lossless = False

    def __init__(self) -> None:
        self.seen: list[list[int]] = []

    def verify(self, draft: Draft, scores: Scores, chance: Chance) -> Verdict:
        self.seen.append(list(scores.context.tokens))
        return Verdict((), int(scores.logits[0].argmax()))


@final
class _Hears(Drafter):
    """Writes a wrong token, asks two questions, and keeps the answers, each after its text."""

    asks = observes = remembers = True

    def __init__(self) -> None:
        self.heard: list[tuple[list[int], Tensor]] = []
        self.texts: list[list[int]] = []
        self.resets = 0

    def propose(self, context: Context, pen: Pen) -> None:
        self._ids = context.tokens[:]
        pen.ask(3)
        if pen.open:
            pen.write(0)
            pen.ask(4, node=0)

    def answer(self, questions: Draft, logits: Tensor) -> None:
        texts = [[3], [0, 4]][: len(questions)]
        self.heard += [(self._ids + text, row) for text, row in zip(texts, logits, strict=True)]

    def observe(self, context: Context, draft: Draft, logits: Tensor) -> None:
        texts = [[], [0]][: 1 + len(draft)]
        self.heard += [(self._ids + text, row) for text, row in zip(texts, logits, strict=True)]

    def reset(self) -> None:
        self.resets += 1

    def remember(self, context: Context) -> None:
        self.texts.append(context.tokens[:])

    @property
    def remembered(self) -> int:
        return len(self.texts)


@final
class _Needs(Drafter):
    """Needs a feature, and writes nothing."""

    def __init__(self, name: str) -> None:
        self.needs = frozenset({name})

    def propose(self, context: Context, pen: Pen) -> None: ...


@final
class _Offers(Target):
    """Offers features, and keeps what was asked for."""

    offers = frozenset({"first", "second"})

    def __init__(self) -> None:
        self.vocab_size = target().vocab_size
        self.asked = frozenset[str]()

    def open(self, tokens: Sequence[int], needs: frozenset[str] = frozenset()) -> Session:
        self.asked |= needs
        return target().open(tokens)
