"""A drafter that is interrupted anywhere drafts afterwards what a new one would."""

import sys
from collections import Counter
from collections.abc import Iterator
from inspect import CO_GENERATOR
from types import FrameType
from typing import Any

import pytest
import torch
from tiny.conformance import makers
from tiny.drafters import bound
from tiny.pens import new_pen

from outrider import Context, Draft, Drafter, Sampling, Tokens
from outrider.targets.transformers import TransformersTarget

FIRST = [3, 4, 5, 3, 4, 5, 6, 7]
SECOND = [3, 4, 5, 3, 4, 9, 5, 3, 4]
DRAFTERS = (
    *("eagle, path: untrained, tree: top:2x2", "eagle3, path: untrained"),
    *("peagle, path: untrained", "dflash, path: untrained, block: 4", "mtp, path: untrained"),
    *("medusa, path: untrained", "bigram, order: 3"),
    *("prompt_lookup", "hierarchy, layers: 2", "early_exit, path: untrained", "swift"),
    "hybrid, drafters: [prompt_lookup, {drafter: eagle, path: untrained}]",
    *("suffix", "lookahead_decoding"),
)
MAKERS = dict(zip(DRAFTERS, makers(DRAFTERS), strict=True))
TWICE = 2
"""How often each place of a call is interrupted: first, and with something of its loop done."""


class Interruption:
    """Raises `KeyboardInterrupt` at the n-th call of a function of Outrider's, as Ctrl-C would.

    A call from a place, by two lines of the stack, counts only the first times: a loop that has
    gone on once leaves the same as one that has gone on more often.
    """

    def __init__(self, number: int) -> None:
        self.left = number
        self.seen: Counter[tuple[Any, ...]] = Counter()

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        name = str(frame.f_globals.get("__name__"))
        inside = name.startswith(
            ("outrider.drafter", "outrider.targets.passes", "outrider.contract.pen")
        )
        if not inside or frame.f_code.co_flags & CO_GENERATOR:  # which is told of their end, too
            return
        place = (frame.f_code, *lines_above(frame, 2))
        self.seen[place] += 1
        if self.seen[place] > TWICE:
            return
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt

    def __enter__(self) -> None:
        sys.settrace(self)  # is told of calls alone, since it traces nothing inside of them

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)


def lines_above(frame: FrameType, count: int) -> Iterator[tuple[Any, int]]:
    """Yields the code and the line of each caller."""
    caller = frame.f_back
    while caller is not None and count:
        yield caller.f_code, caller.f_lineno
        caller, count = caller.f_back, count - 1


def context(target: TransformersTarget, drafter: Drafter, text: list[int]) -> Context:
    session = target.open(text[:-1], drafter.needs - {"model", "tokenizer", "source"})
    session.score(Draft())
    return Context(Tokens(list(text)), None, session.features())


def draft(drafter: Drafter, *contexts: Context) -> Draft:
    """Returns the draft after the first of some contexts."""
    pens = [new_pen(sampling=Sampling(), vocab_size=31, gamma=2, budget=6) for _ in contexts]
    drafter.propose_batch(list(zip(contexts, pens, strict=True)))
    return pens[0].sheet.finish()


@pytest.mark.parametrize(
    ("name", "texts"), [(name, 3 if name.startswith("eagle3") else 1) for name in DRAFTERS]
)
def test_an_interruption_leaves_a_drafter_right(llama: Any, name: str, texts: int) -> None:
    torch.set_num_threads(1)
    target = TransformersTarget(llama())

    new = bound(MAKERS[name](), target)
    first, second, third = (
        context(target, new, text) for text in (FIRST, SECOND, [*SECOND, 5, 3, 4])
    )
    beside = [context(target, new, [number, 5, 6]) for number in range(texts - 1)]
    expected = [draft(bound(MAKERS[name](), target), text) for text in (third, second)]
    calls, ended = 0, False
    while not ended:
        calls += 1
        used = new.open()
        draft(used, first, *beside)
        try:
            with Interruption(calls):
                draft(used, second, *beside)
            ended = True
        except KeyboardInterrupt:
            pass
        after, right = draft(used, second if calls % 2 else third, *beside), expected[calls % 2]
        assert (after.tokens, after.parents) == (right.tokens, right.parents), calls
        torch.testing.assert_close(after.logits, right.logits, rtol=1e-4, atol=1e-5)
    assert calls > 2
