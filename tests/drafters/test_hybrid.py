"""The first of several drafters with a draft writes it, just as it would alone."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from outrider import ConfigError, Context, Drafter, Pen, Sampling, Tokens
from outrider.drafters.hybrid import Hybrid
from outrider.plugins.registry import make
from outrider.testing import parametrize_with_checks
from outrider.testing.stage import VOCAB_SIZE, play_draft, tiny_target

EAGLE = {"drafter": "eagle", "path": "untrained"}


@parametrize_with_checks(
    [
        partial(Hybrid, ["prompt_lookup", "random"]),
        partial(Hybrid, [{"drafter": "prompt_lookup", "min_n": 2}, "small_lm"]),
        partial(Hybrid, [{"drafter": "prompt_lookup", "min_n": 2}, EAGLE]),
        partial(Hybrid, ["prompt_lookup", {**EAGLE, "tree": "3x2"}]),
    ]
)
def test_conformance(make: Callable[[], Any], check: Callable[[Any], None]) -> None:
    check(make)


@pytest.mark.parametrize(
    ("text", "who"), [([0, 1, 2, 0], "prompt_lookup"), ([0, 1, 2], "bigram"), ([3], "bigram")]
)
def test_the_first_that_has_a_draft(text: list[int], who: str) -> None:
    target, sampling = tiny_target(VOCAB_SIZE), Sampling(temperature=1.0)
    drafter, alone = Hybrid(["none", "prompt_lookup", "bigram"]), make("drafter", who)
    for part in (drafter, alone):
        part.bind(target)
    drafts = [
        play_draft(part, target, Context(Tokens(text)), gamma=3, sampling=sampling, seed=5)
        for part in (drafter, alone)
    ]
    assert drafts[0].tokens == drafts[1].tokens
    assert [probs is None for probs in drafts[0].probs] == [
        probs is None for probs in drafts[1].probs
    ]


def test_it_is_what_its_drafters_are() -> None:
    for tree in (None, "3x2"):
        network = make("drafter", {**EAGLE, "tree": tree})
        hybrid = Hybrid(["prompt_lookup", network])
        assert (hybrid.kind, hybrid.needs) == (network.kind, network.needs)


class Silent(Drafter):
    asks = True

    def propose(self, context: Context, pen: Pen) -> None: ...


@pytest.mark.parametrize(
    ("drafters", "complaint"),
    [
        ([], r"drafter\.drafters=\[\]: expected one drafter or more"),
        ([Silent()], "expected none that asks the target"),
        (["eagel"], "did you mean 'eagle'"),
        ([{**EAGLE, "pth": "x"}], r"drafter eagle: pth: did you mean 'path'"),
        ([{**EAGLE, "tree": "3x2"}, {**EAGLE, "tree": "top:3x2"}], "one kind of trees, not"),
        ([7], "expected a name or an instance of Drafter"),
    ],
)
def test_bad_settings_are_refused(drafters: list[Any], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        Hybrid(drafters)
