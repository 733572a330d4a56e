"""Every built-in drafter keeps the contract, in each setting that changes how it drafts."""

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tiny.conformance import makers, parametrize_with_shapes

from outrider import Drafter, decode
from outrider.drafters.bandit import Bandit
from outrider.drafters.hierarchy import Hierarchy
from outrider.drafters.hybrid import AFTER_A_DRAFT, Hybrid
from outrider.drafters.small_lm import SmallLM
from outrider.plugins.registry import installed
from outrider.testing import parametrize_with_checks
from outrider.testing.tiny_targets import bound_target
from outrider.verifiers.sample_match import SampleMatch

SMALL = {
    "small_lm": "layers: 1",
    "swift": "window: 8",
    "dflash": "path: untrained, block: 4",
    "hybrid": "drafters: [prompt_lookup, random]",
    "bandit": "drafters: [prompt_lookup, random, none], c: [0, 0.2, 0]",
}
"""Settings that make a drafter small enough for enumeration."""

SHAPES_ALONE = ("online", "assistant")
"""Drafters for which all of the kit would take long, and one for targets that it does not have."""

MORE = (
    "hybrid, drafters: [{drafter: prompt_lookup, min_n: 2}, {drafter: eagle, path: untrained}]",
    "hybrid, drafters: [prompt_lookup, {drafter: eagle, path: untrained, tree: 3x2}]",
    "hybrid, chain: [random, suffix], steps: 1",
    "hybrid, merge: [suffix, token_recycling]",
    "bandit, drafters: [token_recycling, suffix], c: [0.1, 0]",
    "dflash, path: untrained, block: 4, confidence: 0.3",
)
FORMS = {
    "bigram": (
        *("iid:2x2", "paths:2", "top:2x2", "dynamic:2", "replay:2", "[[0], [1], [0, 0]]"),
        *("'sequoia:.5,.2'", "'cost:3,.05,.02'"),
    ),
    "random": ("iid:2x1",),
    "small_lm": ("2x1", "replay:2"),
    "eagle3": ("dynamic:3",),
    "medusa": ("top:2x2",),
    "mlp_speculator": ("iid:2x1",),
    "redrafter": ("dynamic:2",),
}
"""The shapes of trees that the checks of shapes see; of other networks it is 2x1.

A table sees them all. That a network's passes give each node its distribution is shown beside it.
"""


def settings(name: str) -> str:
    """Returns a drafter as a config writes it, with random weights where it needs any."""
    parameters = inspect.signature(installed().of("drafter")[name].product).parameters
    needed = [
        f"{setting}: untrained"
        for setting, found in parameters.items()
        if setting == "path" or (setting == "model" and found.default is found.empty)
    ]
    return ", ".join([name, *([SMALL[name]] if name in SMALL else needed)])


def shaped() -> Iterator[str]:
    for name, entry in installed().of("drafter").items():
        has_network = settings(name) != name and name not in ("rest", "assistant")
        if has_network and "tree" in inspect.signature(entry.product).parameters:
            yield from (f"{settings(name)}, tree: {form}" for form in FORMS.get(name, ("2x1",)))
        else:
            yield from (f"{settings(name)}, tree: {form}" for form in FORMS.get(name, ()))


WHOLE = [settings(name) for name in installed().of("drafter") if name not in SHAPES_ALONE]
SHAPES = (*shaped(), "online", "online, order: 3, tree: 2x2")


@parametrize_with_checks(makers((*WHOLE, *MORE)))
def test_a_drafter_keeps_the_contract(
    make: Callable[[], Any], check: Callable[[Any], None]
) -> None:
    check(make)


@parametrize_with_shapes(makers(SHAPES))
def test_shapes_keep_the_contract(make: Callable[[], Any], check: Callable[[Any], None]) -> None:
    check(make)


def played(drafter: Drafter) -> list[tuple[int, int]]:
    """Returns the tokens drafted and accepted in each round of the same text, three times."""
    target, rule = bound_target(drafter), SampleMatch()
    options = {"gamma": 3, "budget": 6, "max_new_tokens": 9}
    texts = [decode(target, drafter, rule, [0, 1, 2, 0, 1], **options) for _ in range(3)]
    return [(each.drafted, each.accepted) for rounds in texts for each in rounds]


@pytest.mark.parametrize("make", makers((*WHOLE, "online")), ids=(*WHOLE, "online"))
def test_a_composite_keeps_the_rounds_of_its_part(make: Callable[[], Drafter]) -> None:
    """Every part is told what it observes, remembers, asks and needs, whichever of them drafts."""
    part = make()
    alone = part.asks or isinstance(part, Bandit)  # which learns by the drafts that it has chosen
    expected, arms = played(part), [make()] if alone else [make(), make()]
    for composite in (Hybrid(["none", make()]), Bandit(arms, c=[0] * len(arms))):
        assert played(composite) == expected
        assert composite.parts[-1].remembered == part.remembered
        assert bool(composite.models) == bool(part.models)
    if not part.trees and not part.asks and part.needs <= AFTER_A_DRAFT:
        faster = Hierarchy(make(), layers=1)
        assert played(faster) == played(SmallLM(layers=1))
        assert faster.remembered == part.remembered
