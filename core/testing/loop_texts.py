"""Facts about texts: those under a constraint and in a batch, and their log-probabilities."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice, pairwise
from typing import Any, final

import torch
from torch import Tensor

from outrider.base.errors import TargetError
from outrider.contract.constraint import Constraint
from outrider.contract.logprobs import TokenLogprob
from outrider.contract.sampling import Sampling
from outrider.decoding.decode import decode, decode_together
from outrider.testing.facts import assert_close, assert_is, assert_refused
from outrider.testing.loops import LENGTH, PROMPT, Copies, target, tokens_of
from outrider.testing.stage import SAMPLED
from outrider.testing.staged_drafters import ChainDrafter, TreeDrafter
from outrider.verifiers.token import Token
from outrider.verifiers.traversal import Traversal

FORBIDDEN = float("-inf")


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
    for _ in range(LENGTH):
        text.append(int(_NoRepeats().logits(text, target().logits(text)).argmax()))
    for drafter, right in ((Copies(text), True), (Copies([0] * 99), False)):
        rounds = list(
            decode(
                target(), drafter, Token(), PROMPT,
                gamma=3, max_new_tokens=LENGTH, constraint=_NoRepeats(), logprobs=0,
            )
        )  # fmt: skip
        assert_is("the greedy text under a constraint", tokens_of(rounds), text[2:])
        assert_is("whether the draft is accepted", len(rounds) == LENGTH / 4, right)
        logprobs = [logprob for round in rounds for logprob in round.logprobs]
        for position, logprob in enumerate(logprobs, start=len(PROMPT)):
            logs = target().logits(text[:position]).log_softmax(-1)
            what = "a log-probability under a constraint"
            assert_close(what, logprob.logprob, float(logs[text[position]]))
    stuck = decode(target(), Copies(text), Token(), PROMPT, constraint=_NoRepeats(until=4))
    assert_refused("a constraint that leaves no token", lambda: list(stuck), TargetError)


def assert_steered() -> None:
    """Asserts that drafts keep to a constraint that steers them."""
    rounds = decode(
        target(), ChainDrafter(target(), "drawn"), Token(), PROMPT,
        sampling=SAMPLED, constraint=_NoRepeats(steers=True), max_new_tokens=24,
    )  # fmt: skip
    for round in rounds:
        _NoRepeats().check(round.draft)


def assert_seeds() -> None:
    """Asserts that texts depend on seed and number, and not on the other texts of their batch."""
    prompts = ([0, 1], [2], [3, 1, 0], [0, 1])
    drafters = [ChainDrafter(target(), "drawn") for _ in prompts]
    limited = target()
    limited.max_length = 8  # longer prompts end first
    options: dict[str, Any] = {"gamma": 2, "sampling": SAMPLED, "max_new_tokens": 7}
    texts: list[list[int]] = [[] for _ in prompts]
    together = decode_together(limited, drafters, Token(), prompts, **options)
    for number, round in islice(together, 7 * len(prompts)):  # if it never ends, that is a fault
        texts[number] += round.tokens
    for number, prompt in enumerate(prompts):
        alone = decode(limited, drafters[0], Token(), prompt, number=number, **options)
        assert_is(f"text {number} of a batch", texts[number], tokens_of(alone))
    assert texts[0] != texts[3], "texts with different numbers are the same"
    options["sampling"] = replace(SAMPLED, seed=1)
    other = tokens_of(decode(limited, drafters[0], Token(), prompts[0], **options))
    assert other != texts[0], "texts with different seeds are the same"


@final
class _NoRepeats(Constraint):
    """Forbids the token that came last; all tokens once a text has `until` of them."""

    def __init__(self, until: int = 99, *, steers: bool = False) -> None:
        self._until, self._steers = until, steers

    def check(self, ids: Sequence[int]) -> None:
        """Raises AssertionError if a token comes twice in a row."""
        repeated = any(one == other for one, other in pairwise(ids))
        assert not repeated, f"a constraint was asked about {list(ids)}, which it forbids"

    def logits(self, ids: Sequence[int], logits: Tensor) -> Tensor:
        self.check(ids)
        if len(ids) >= self._until:
            return torch.full_like(logits, FORBIDDEN)
        return logits.index_fill(0, torch.tensor([ids[-1]]), FORBIDDEN)

    def steering(self) -> Constraint | None:
        return _NoRepeats() if self._steers else None
