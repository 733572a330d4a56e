"""What a drafter does unless it says otherwise."""

from collections.abc import Iterator
from typing import Any

import pytest
from tiny.drafters import bound
from tiny.pens import new_pen
from torch import nn

from outrider import Context, Drafter, Pen, Sampling, Tokens
from outrider.drafters.lookahead_decoding import LookaheadDecoding
from outrider.drafters.suffix import Suffix
from outrider.drafters.token_recycling import TokenRecycling
from outrider.plugins.parts import make
from outrider.targets.tabular import TabularTarget
from outrider.targets.transformers import TransformersTarget


class Counting(Drafter):
    def propose(self, context: Context, pen: Pen) -> None:
        pen.write(len(context.tokens))


def test_a_batch_is_drafted_one_after_another() -> None:
    pens = [new_pen(sampling=Sampling(), vocab_size=9, gamma=1) for _ in range(3)]
    drafter = bound(Counting(), TabularTarget(9))
    drafter.propose_batch([(Context(Tokens([0] * (i + 1))), pen) for i, pen in enumerate(pens)])
    assert [pen.sheet.finish().tokens for pen in pens] == [(1,), (2,), (3,)]
    assert not drafter.needs
    assert not drafter.trees


def test_by_default_a_drafter_serves_all_texts_and_has_no_abilities() -> None:
    drafter = Counting()
    assert drafter.open() is drafter
    assert (drafter.asks, drafter.observes, drafter.remembers) == (False, False, False)


def test_a_drafter_has_the_abilities_that_it_overrides() -> None:
    lookahead, recycling = LookaheadDecoding(), TokenRecycling(remember=False)
    assert (lookahead.asks, lookahead.observes, lookahead.remembers) == (True, False, False)
    assert (recycling.asks, recycling.observes, recycling.remembers) == (False, True, False)
    assert Suffix().remembers and not Suffix(remember=False).remembers


@pytest.mark.parametrize(
    "name", ["prompt_lookup", "bigram", "suffix", "lookahead_decoding", "token_recycling", "eagle",
             "small_lm", "early_exit", "swift", "peagle", "hybrid", "hierarchy"]
)  # fmt: skip
def test_an_opened_drafter_shares_networks(name: str, llama: Any) -> None:
    settings = {"eagle": {"path": "untrained"}, "peagle": {"path": "untrained"},
                "small_lm": {"layers": 1}, "hierarchy": {"layers": 1}}.get(name, {})  # fmt: skip
    if name == "hybrid":
        settings = {"chain": ["prompt_lookup", {"drafter": "small_lm", "layers": 1}]}
    drafter = bound(make("drafter", name, **settings), TransformersTarget(llama()))
    opened = drafter.open()
    assert opened is not drafter
    assert list(networks(opened)) == list(networks(drafter))


def networks(part: Any) -> Iterator[int]:
    """Yields the identities of all parameters of torch modules below an object of Outrider."""
    if isinstance(part, nn.Module):
        yield from map(id, part.parameters())
    elif isinstance(part, tuple | list):
        for item in part:
            yield from networks(item)
    elif type(part).__module__.startswith("outrider.drafters"):
        for item in getattr(part, "__dict__", {}).values():
            yield from networks(item)
