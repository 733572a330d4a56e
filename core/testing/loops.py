"""Facts about the loop: what it drafts, counts and emits, and when a text ends."""

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import islice
from typing import Any, final

from outrider.base.errors import ConfigError, DrafterError
from outrider.contract.context import Context
from outrider.contract.draft import ROOT, Draft
from outrider.contract.drafter import Drafter
from outrider.contract.pen import Pen
from outrider.contract.policy import Policy
from outrider.contract.round import Round
from outrider.decoding.decode import decode
from outrider.targets.tabular import TabularTarget
from outrider.testing.facts import assert_is, assert_refused
from outrider.testing.staged_drafters import TreeDrafter
from outrider.verifiers.multi_path_block import MultiPathBlock
from outrider.verifiers.sample_match import SampleMatch
from outrider.verifiers.token import Token

PROMPT = [0, 1]
LENGTH = 12


def target() -> TabularTarget:
    """Returns the target of these facts, whose greedy text has six different tokens."""
    return TabularTarget(6, seed=1)


def greedy_text(length: int = LENGTH) -> list[int]:
    """Returns the prompt and the greedy text after it."""
    text = list(PROMPT)
    for _ in range(length):
        text.append(int(target().logits(text).argmax()))
    return text


@final
class Copies(Drafter):
    """Writes a known text on, while the pen is open.

    wrong: the position of a token that it gets wrong.
    """

    def __init__(self, text: Sequence[int], wrong: int | None = None) -> None:
        self._text, self._wrong = text, wrong

    def propose(self, context: Context, pen: Pen) -> None:
        while pen.open:
            position = len(context.tokens) + len(pen)
            pen.write((self._text[position] + (position == self._wrong)) % pen.vocab_size)


def assert_lengths() -> None:
    """Asserts that drafts are as long as they may be, and leave room for the target's token."""
    text = greedy_text()
    rounds = _rounds(Copies(text), gamma=4)
    assert_is("the greedy text", tokens_of(rounds), text[2:])
    assert_is("tokens per round", [len(round.tokens) for round in rounds], [5, 5, 2])
    counts = [(round.drafted, round.tested, round.accepted) for round in rounds]
    assert_is("drafted, tested and accepted", counts, [(4, 4, 4), (4, 4, 4), (1, 1, 1)])
    assert_is("the origins in the last round", rounds[-1].origins, ("accepted", "bonus"))
    assert_is(
        "why a text ends, by round",
        [round.stop for round in rounds],
        [None, None, "max_new_tokens"],
    )
    for budget, nodes in ((14, 14), (None, 2)):  # the tree has pairs
        tree = TreeDrafter(target(), "deterministic")
        first = _rounds(tree, SampleMatch(), gamma=3, budget=budget)[0]
        assert_is(f"tokens drafted with a budget of {budget}", first.drafted, nodes)


def assert_counts() -> None:
    """Asserts what is counted where a draft token is wrong, and where the text ends within it."""
    text = greedy_text()
    first = _rounds(Copies(text, wrong=4), gamma=4)[0]
    assert_is("the text up to a wrong token", first.tokens, tuple(text[2:5]))
    assert_is(
        "the origins of tokens up to a wrong one",
        first.origins,
        ("accepted", "accepted", "recovered"),
    )
    assert_is(
        "the path up to a wrong token, and the parents",
        (first.path, first.parents),
        ((0, 1), (-1, 0, 1, 2)),
    )
    counts = (first.drafted, first.tested, first.accepted)
    assert_is("drafted, tested and accepted up to a wrong token", counts, (4, 3, 2))
    last = next(position for position in range(4, LENGTH) if text[position] not in text[2:position])
    for wrong in (None, last + 1):
        stopping = target()
        stopping.eos = frozenset({text[last]})
        (only,) = _rounds(Copies(text, wrong), on=stopping, gamma=last)
        assert_is("the text up to the end token", only.tokens, tuple(text[2 : last + 1]))
        assert_is("why a text ends at its end token", only.stop, "eos")
        counts = (only.drafted, only.tested, only.accepted)
        what = "drafted, tested and accepted up to the end token"
        assert_is(what, counts, (len(only.tokens),) * 3)
        assert_is("the path up to the end token", only.path, tuple(range(len(only.tokens))))


def assert_limits() -> None:
    """Asserts that the context window ends a text if it is shorter than what is wanted."""
    text = greedy_text()
    for max_length, length, reason in ((8, 6, "max_length"), (99, LENGTH, "max_new_tokens")):
        short = target()
        short.max_length = max_length
        rounds = _rounds(Copies(text), on=short, gamma=4)
        assert_is("the text in a context window", tokens_of(rounds), text[2 : 2 + length])
        assert_is("why a text ends", rounds[-1].stop, reason)


def assert_policy() -> None:
    """Asserts that the policy decides how long drafts are, and is told of every round."""
    policy = _Watches(depth=0)
    rounds = _rounds(Copies(greedy_text()), policy=policy)
    assert_is("tokens drafted at depth 0", {round.drafted for round in rounds}, {0})
    policy = _Watches(more=2)
    rounds = _rounds(Copies(greedy_text()), policy=policy, gamma=5)
    assert_is("the rounds that a policy is told of", policy.rounds, rounds)
    assert_is("how often the policy is reset before a text", policy.resets, 1)
    assert_is("the longest draft that the policy wants", max(round.drafted for round in rounds), 2)
    paths = TreeDrafter(target(), "paths")
    first = _rounds(paths, MultiPathBlock(), policy=_Watches(more=3), gamma=3, budget=6)[0]
    assert_is("tokens of two paths that the policy stops in the middle", first.drafted, 4)


def assert_fit() -> None:
    """Asserts that a drafter that does not fit, or lies about its kind, is refused."""
    tree = TreeDrafter(target(), "iid")
    assert_refused("a tree for a rule of chains", lambda: _rounds(tree, Token()), ConfigError)
    chains = target()
    chains.trees = False
    refused = partial(_rounds, tree, SampleMatch(), on=chains)
    assert_refused("a tree for a target of chains", refused, ConfigError)
    assert_refused("an unmet need", lambda: _rounds(_Needy()), ConfigError)
    assert_refused("a tree that says it is a chain", lambda: _rounds(_Lies()), DrafterError)


def _rounds(drafter: Drafter, rule: Any = None, on: Any = None, **options: Any) -> list[Round]:
    options = {"gamma": 3, "max_new_tokens": LENGTH} | options
    rounds = decode(on or target(), drafter, rule or Token(), PROMPT, **options)
    return list(islice(rounds, 2 * LENGTH))  # a loop that never ends is a fault, too


def tokens_of(rounds: Iterable[Round]) -> list[int]:
    """Returns the tokens of rounds, one after another."""
    return [token for round in rounds for token in round.tokens]


@final
class _Watches(Policy):
    """Has one answer to how deep and how long, and lists what it is told."""

    def __init__(self, depth: int | None = None, more: int = 99) -> None:
        self._depth, self._more = depth, more
        self.rounds: list[Round] = []
        self.resets = 0

    def depth(self, gamma: int) -> int:
        return gamma if self._depth is None else self._depth

    def more(self, draft: Draft) -> bool:
        return len(draft) < self._more

    def observe(self, round: Round) -> None:
        self.rounds.append(round)

    def reset(self) -> None:
        self.resets += 1


@final
class _Needy(Drafter):
    """Needs what no target offers."""

    needs = frozenset({"nothing that there is"})

    def propose(self, context: Context, pen: Pen) -> None: ...


@final
class _Lies(Drafter):
    """Says that it writes chains, and writes two siblings."""

    def propose(self, context: Context, pen: Pen) -> None:
        if pen.gamma > 0 and pen.room > 1:
            pen.write(0)
            pen.write(1, after=ROOT)
