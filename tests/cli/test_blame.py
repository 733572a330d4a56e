"""Blame: an error of a part names the part whose code raised it, and where."""

import re
import sys
from importlib import import_module
from typing import Any, ClassVar

import pytest

import outrider
from outrider import (
    Chance,
    ConfigError,
    Draft,
    PluginError,
    Policy,
    Scores,
    Target,
    TargetError,
    Verdict,
    Verifier,
)
from outrider.base.errors import described, place
from outrider.cli.blame import blamed
from outrider.drafters.none import NoDraft
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
    with pytest.raises(ConfigError, match=r"^drafter: int raised TypeError"):
        outrider.build(config.drafter)


class Wordless(Exception):
    """An error that can't say what it is about."""

    def __str__(self) -> str:
        return str({}["missing"])


class Foreign(BaseException):
    """No `Exception`, as those are that end the tasks of some libraries."""


class Raises(Broken):
    """A rule that raises what it is told to."""

    error: ClassVar[BaseException]

    def verify(self, draft: Draft, scores: Scores, chance: Chance) -> Verdict:
        raise self.error


@pytest.mark.parametrize("error", [Wordless(), Foreign("no"), ExceptionGroup("a", [KeyError()])])
def test_errors_of_any_class_are_one_line(
    run: Any, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    monkeypatch.setattr(Raises, "error", error, raising=False)
    words = ("target=tabular", "prompt=[0,1]", f"verifier._target_={__name__}.Raises")
    status, _, err = run("generate", *words, "drafter=none")
    assert status == 1
    assert err.startswith(f"outrider: verifier Raises raised {type(error).__name__}")
    assert "Traceback" not in err and err.count("\n") == 2  # and the place of the text


class Imports(NoDraft):
    """A drafter that needs a library only once it is bound."""

    def bind(self, target: Target) -> None:
        import_module("a_library_that_is_nowhere")


def test_a_library_that_a_part_misses_later_is_one_line(run: Any) -> None:
    words = ("target=tabular", "prompt=[0,1]", f"drafter._target_={__name__}.{Imports.__name__}")
    status, _, err = run("generate", *words, "drafter=none")
    assert (status, err.count("\n")) == (1, 1)
    assert "Imports raised ModuleNotFoundError: No module named 'a_library" in err


class Leaves(TabularTarget):
    """A target that ends the process, on the way to its prompt and while it is made."""

    where = "encode"

    def __init__(self, **_: Any) -> None:
        self.leave("made")
        super().__init__()

    def encode(self, *_: Any, **__: Any) -> Any:
        self.leave("encode")

    def encode_turns(self, *_: Any, **__: Any) -> Any:
        self.leave("encode")

    def leave(self, where: str) -> None:
        if self.where == where:
            sys.exit(0)


@pytest.mark.parametrize("where", ["made", "encode"])
@pytest.mark.parametrize("command", ["generate prompt=[0]", "compare drafters=[none] data=demo"])
def test_a_part_that_exits_ends_no_command_silently(
    run: Any, monkeypatch: pytest.MonkeyPatch, command: str, where: str
) -> None:
    monkeypatch.setattr(Leaves, "where", where)
    words = command.split()
    status, _, err = run(*words, "target=tabular", f"target._target_={__name__}.{Leaves.__name__}")
    assert status == 1 and "Traceback" not in err
    line = rf"(?m)^outrider: target:? Leaves raised SystemExit: 0 \({re.escape(__file__)}:\d+\)"
    assert re.search(line, err)
