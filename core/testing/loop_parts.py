"""Facts about the loop's parts: what it shows to drafter, rule and constraint, and whose noise."""

from collections.abc import Sequence
from typing import Any, final

import torch
from torch import Tensor

from outrider.contract.chance import DRAFTER, TARGET, Chance
from outrider.contract.constraint import Constraint
from outrider.contract.context import Context
from outrider.contract.draft import Draft
from outrider.contract.drafter import Drafter
from outrider.contract.logprobs import TokenLogprob
from outrider.contract.pen import Pen
from outrider.contract.sampling import Sampling
from outrider.contract.verifier import Scores, Verdict, Verifier
from outrider.decoding.decode import decode, decode_together
from outrider.errors import TargetError
from outrider.testing.facts import assert_close, assert_is, assert_refused
from outrider.testing.loops import PROMPT, Copies, greedy_text, target
from outrider.testing.stage import SAMPLED, ChainDrafter, TreeDrafter
from outrider.verifiers.gumbel import Gumbel
from outrider.verifiers.token import Token
from outrider.verifiers.traversal import Traversal

FORBIDDEN = float("-inf")


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
    assert_is("the texts that it remembers", drafter.texts, [text[:4], text[:4]])
    assert_is("the texts that it hears of", len(drafter.heard), 12)
    for read, logits in drafter.heard:
        expected = target().logits(read).tolist()
        assert_is(f"the logits that it hears after {read}", logits.tolist(), expected)


def assert_logprobs() -> None:
    """Asserts that log-probabilities are the target's own, wherever in a tree a token was."""
    drafter, text = TreeDrafter(target(), "distinct"), list(PROMPT)
    rounds = list(
        decode(
            target(), drafter, Traversal(), PROMPT,
            gamma=2, budget=6, sampling=Sampling(temperature=1.3), max_new_tokens=24, logprobs=2,
        )
    )  # fmt: skip
    inside = any(path != tuple(range(len(path))) for path in (round.path for round in rounds))
    assert inside, "no text went through a second sibling"
    for round in rounds:
        for token, logprob in zip(round.tokens, round.logprobs, strict=True):
            logs = target().logits(text).log_softmax(-1)
            _assert_logprob(f"the target's log-probability of {token}", logprob, logs, token)
            text.append(token)


def _assert_logprob(what: str, logprob: TokenLogprob, logs: Tensor, token: int) -> None:
    assert_close(what, logprob.logprob, float(logs[token]))
    assert_is(f"{what}: its rank", logprob.rank, 1 + int((logs > logs[token]).sum()))
    likeliest = logs.topk(2).indices.tolist()
    assert_is(f"{what}: the likeliest", [token for token, _ in logprob.top], likeliest)


def assert_constrained() -> None:
    """Asserts that a text keeps to a constraint, which is asked about possible texts alone."""
    text = list(PROMPT)
    for _ in range(12):
        text.append(int(_NoRepeats().logits(text, target().logits(text)).argmax()))
    for drafter, accepted in ((Copies(text), True), (Copies([0] * 99), False)):
        rounds = list(
            decode(
                target(), drafter, Token(), PROMPT,
                gamma=3, max_new_tokens=12, constraint=_NoRepeats(), logprobs=0,
            )
        )  # fmt: skip
        tokens = [token for round in rounds for token in round.tokens]
        assert_is("the greedy text under a constraint", tokens, text[2:])
        if accepted:
            assert_is("its rounds with a right draft", len(rounds), 3)
        logprobs = [logprob for round in rounds for logprob in round.logprobs]
        for position, logprob in enumerate(logprobs, start=2):
            logs = target().logits(text[:position]).log_softmax(-1)
            what = "a log-probability under a constraint"
            assert_close(what, logprob.logprob, float(logs[text[position]]))
    stuck = decode(target(), Copies(text), Token(), PROMPT, constraint=_NoRepeats(until=4))
    assert_refused("a constraint that leaves no token", lambda: list(stuck), TargetError)
    steered = decode(
        target(), ChainDrafter(target(), "drawn"), Token(), PROMPT,
        sampling=SAMPLED, constraint=_NoRepeats(steers=True), max_new_tokens=12,
    )  # fmt: skip
    for round in steered:
        _NoRepeats().check(round.draft)


def assert_together() -> None:
    """Asserts that the texts of a batch are those that are written one by one."""
    prompts = ([0, 1], [2], [3, 1, 0], [0, 1])
    drafters = [ChainDrafter(target(), "drawn") for _ in prompts]
    limited = target()
    limited.max_length = 8
    options: dict[str, Any] = {"gamma": 2, "sampling": SAMPLED, "max_new_tokens": 7}
    texts: list[list[int]] = [[] for _ in prompts]
    for number, round in decode_together(limited, drafters, Token(), prompts, **options):
        texts[number] += round.tokens
    for number, prompt in enumerate(prompts):
        alone = decode(limited, drafters[0], Token(), prompt, number=number, **options)
        tokens = [token for round in alone for token in round.tokens]
        assert_is(f"text {number} of a batch", texts[number], tokens)
    assert texts[0] != texts[3], "equal prompts get the same text in a batch"


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
class _NoRepeats(Constraint):
    """Forbids the token that came last; all tokens once a text has `until` of them."""

    def __init__(self, until: int = 99, *, steers: bool = False) -> None:
        self._until, self._steers = until, steers

    def check(self, ids: Sequence[int]) -> None:
        """Raises AssertionError if a token comes twice in a row."""
        repeated = any(one == other for one, other in zip(ids, ids[1:], strict=False))
        assert not repeated, f"a constraint was asked about {list(ids)}, which it forbids"

    def logits(self, ids: Sequence[int], logits: Tensor) -> Tensor:
        self.check(ids)
        if len(ids) >= self._until:
            return torch.full_like(logits, FORBIDDEN)
        return logits.index_fill(0, torch.tensor([ids[-1]]), FORBIDDEN)

    def steering(self) -> Constraint | None:
        return _NoRepeats() if self._steers else None
