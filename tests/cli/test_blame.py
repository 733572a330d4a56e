"""Blame: an error of a part names the part whose code raised it, and where."""

from typing import Any

import pytest

import outrider
from outrider import (
    Chance,
    ConfigError,
    Draft,
    PluginError,
    Policy,
    Scores,
    TargetError,
    Verdict,
    Verifier,
)
from outrider.base.errors import described, place
from outrider.cli.blame import blamed
from outrider.targets.tabular import TabularTarget


class Broken(Verifier):
    """A rule whose code fails."""

    lossless = True
    takes = frozenset({"chain"})

    def verify(self, draft: Draft, scores: Scores, chance: Chance) -> Verdict:
        return {}["missing"]


class Careless(Policy):
    """A policy whose code fails."""

    def depth(self, gamma: int) -> int:
        return gamma // 0


@pytest.mark.parametrize(
    ("parts", "line"),
    [
        ({"verifier": Broken()}, "verifier Broken raised KeyError: 'missing' ("),
        ({"policy": Careless()}, "policy Careless raised ZeroDivisionError: "),
    ],
)
def test_the_part_whose_code_failed_is_named_with_its_place(
    parts: dict[str, Any], line: str
) -> None:
    with pytest.raises(PluginError) as caught:
        outrider.generate(TabularTarget(), [0, 1], "none", **parts)
    assert str(caught.value).startswith(line) and "test_blame.py:" in str(caught.value)
    told = blamed(caught.value.__cause__ or caught.value)
    assert told == f"{caught.value}; --traceback shows where"


def test_errors_without_a_message_or_with_a_long_one_are_one_line() -> None:
    assert described(StopIteration()) == "StopIteration"
    assert len(described(ValueError("x\n" * 9999))) < 400
    assert described(TargetError("one line")) == "TargetError: one line"
    assert place(ValueError()) == ""


def test_a_thing_whose_repr_fails_is_refused_by_its_class() -> None:
    odd = type("Odd", (), {"__repr__": lambda _: {}["missing"]})()
    with pytest.raises(ConfigError, match=r"^drafter=<Odd>: expected a name"):
        outrider.generate(TabularTarget(), [0], odd)


def test_a_constructor_that_fails_is_named() -> None:
    config = outrider.compose("generate", ["target=tabular", "prompt=x", "drafter=bigram"])
    config.drafter = {"_target_": "builtins.int", "x": 1}
    with pytest.raises(ConfigError, match=r"int raised TypeError"):
        outrider.build(config.drafter)
