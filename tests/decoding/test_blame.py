"""Whatever a part's code raises or returns is one line that names the part, in every loop."""

import copy
import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import pytest
import torch
import yaml

from outrider import (
    Constraint,
    Context,
    Drafter,
    OutriderError,
    Pen,
    Policy,
    Sampling,
    Session,
    Verdict,
    Verifier,
    generate,
    generate_together,
)
from outrider.contract.chance import SampledChance
from outrider.extras.beams.speculation import beam_search
from outrider.targets.tabular import TabularTarget

SIZE = 6


class Uniform(Drafter):
    def open(self) -> Any:
        return copy.copy(self)

    def propose(self, context: Context, pen: Pen) -> None:
        while pen.open:
            pen.draw(torch.zeros(pen.vocab_size))


class Full(Policy):
    def depth(self, gamma: int) -> int:
        return gamma


class Nothing(Verifier):
    takes = frozenset({"chain"})
    lossless = True

    def verify(self, *_: Any) -> Verdict:
        return Verdict((), 0)


class Even(Session):
    def score(self, draft: Any) -> torch.Tensor:
        return torch.zeros(len(draft) + 1, SIZE)

    def commit(self, verdict: Any) -> None:
        pass


class Opens(TabularTarget):
    session: Any = Even

    def open(self, *_: Any) -> Any:
        return self.session()


METHODS: dict[str, tuple[type[Any], tuple[str, ...]]] = {
    "policy": (Full, ("depth", "more", "observe", "reset")),
    "constraint": (Constraint, ("begin", "logits", "ends", "steering")),
    "drafter": (Uniform, ("propose", "propose_batch", "open", "bind", "observe", "remember")),
    "verifier": (Nothing, ("verify",)),
    "target": (Opens, ("begin", "open", "encode", "computing")),
    "session": (Even, ("score", "commit", "features")),
}
CASES = [(role, name) for role, (_, names) in METHODS.items() for name in names]
UNASKED = {
    ("policy", "observe"),
    ("policy", "reset"),
    ("session", "commit"),
    ("session", "features"),
}
UNASKED |= {("drafter", name) for name in ("bind", "observe", "remember")}
"""Methods whose answer nobody looks at, or may be anything."""
WRONG: tuple[Any, ...] = (-1, 2.5, "x", [1], object(), torch.tensor([1, 2]), float("nan"))


def played(role: str, part: Any, play: Any) -> Any:
    parts: dict[str, Any] = {"target": Opens(SIZE), "drafter": Uniform(), "verifier": Nothing()}
    if role == "session":
        parts["target"].session = lambda: part
    else:
        parts[role] = part
    target, drafter, verifier = (parts.pop(name) for name in ("target", "drafter", "verifier"))
    sampling = Sampling(temperature=1)
    return play(target, drafter, verifier, max_new_tokens=3, sampling=sampling, **parts)


def alone(*parts: Any, **options: Any) -> Any:
    target, *others = parts
    return generate(target, [1], *others, **options)


def in_a_batch(*parts: Any, **options: Any) -> Any:
    target, *others = parts
    for role, name in (("policy", "policies"), ("constraint", "constraints")):
        if role in options:
            options[name] = [options.pop(role)] * 2
    return generate_together(target, [[1], [2]], *others, **options)


def with_method(role: str, name: str, method: Any) -> Any:
    return type("Mine", (METHODS[role][0],), {name: method})()


@pytest.mark.parametrize("play", [alone, in_a_batch])
@pytest.mark.parametrize(("role", "name"), CASES)
def test_errors_of_a_part_name_the_part_and_the_place(role: str, name: str, play: Any) -> None:
    def fails(self: Any, *_: Any, **__: Any) -> None:
        raise KeyError("mine")

    line = rf"^{'target' if role == 'session' else role} Mine raised KeyError: 'mine' \(.*:\d+\)$"
    with pytest.raises(OutriderError, match=line):
        played(role, with_method(role, name, fails), play)


@pytest.mark.parametrize("play", [alone, in_a_batch])
@pytest.mark.parametrize(("role", "name"), CASES)
def test_answers_of_a_part_are_taken_or_refused(role: str, name: str, play: Any) -> None:
    for value in WRONG:

        def returns(self: Any, *_: Any, value: Any = value, **__: Any) -> Any:
            return value

        if (role, name) in UNASKED or (name == "encode" and value == [1]):
            continue
        with pytest.raises(OutriderError) as refused:
            played(role, with_method(role, name, returns), play)
        line = str(refused.value)
        assert "\n" not in line and len(line) < 500, line


CLAIMS = ("vocab_size", "max_length", "eos", "offers")


def fails(_: Any) -> None:
    yaml.safe_load("a: [")  # a library that Outrider does not know


@pytest.mark.parametrize(
    ("role", "names"),
    {
        "target": (*CLAIMS, "tokenizer"),
        "drafter": ("kind", "needs", "trees", "observes", "remembered"),
        "verifier": ("takes", "lossless", "coupled"),
    }.items(),
)
def test_errors_of_a_property_name_the_part_and_the_users_line(
    role: str, names: tuple[str, ...]
) -> None:
    for name in names:
        line = rf"^{role} Mine raised ParserError: .*\({re.escape(__file__)}:\d+\)$"
        part = METHODS[role][0]()
        mine = type("Mine", (type(part),), {name: property(fails)})
        object.__setattr__(part, "__class__", mine)
        with pytest.raises(OutriderError, match=line):
            played(role, part, alone)


class Skewed(SampledChance):
    def named(self, name: str) -> Any:
        raise KeyError("mine")


class CallsWrongly(Nothing):
    def verify(self, draft: Any, scores: Any, chance: Any) -> Verdict:
        chance.categorical(None, None)
        raise AssertionError


class Stops(TabularTarget):
    def open(self, *_: Any) -> Any:
        return next(iter(()))


class Waits(TabularTarget):
    @contextmanager
    def computing(self) -> Iterator[None]:
        yield
        fails(self)


class Reads(Full):
    def depth(self, gamma: int) -> int:
        return int(str(import_module("a_library_that_is_nowhere")))


class Slow:
    """A tokenizer that fails once it is asked what it is."""

    chat_template = None

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)


class Untold(Opens):
    def __init__(self) -> None:
        super().__init__(SIZE)
        self.tokenizer: Any = Slow()


@pytest.mark.parametrize("play", [alone, in_a_batch])
@pytest.mark.parametrize(
    ("role", "part", "line"),
    [
        ("verifier", CallsWrongly(), "verifier CallsWrongly raised "),
        ("target", Stops(SIZE), "target Stops raised "),
        ("target", Waits(SIZE), "target Waits raised ParserError"),
        ("policy", Reads(), "policy Reads raised ModuleNotFoundError"),
        ("target", Untold(), f"code {__name__}.Slow.__getattr__ raised RuntimeError"),
    ],
)
def test_no_error_blames_another_part(role: str, part: Any, line: str, play: Any) -> None:
    with pytest.raises(OutriderError) as caught:
        played(role, part, play)
    assert str(caught.value).startswith(line) and f"({__file__}:" in str(caught.value)


def test_a_chance_that_fails_is_named() -> None:
    with pytest.raises(OutriderError, match=r"^chance Skewed raised KeyError: 'mine' \("):
        generate(TabularTarget(SIZE), [1], "random", chance=Skewed.seeded(0))


@pytest.mark.parametrize("name", CLAIMS)
@pytest.mark.parametrize("value", WRONG)
def test_claims_of_a_target_are_checked(name: str, value: Any) -> None:
    target = TabularTarget(SIZE)
    setattr(target, name, value)
    if (name, str(value)) in (("eos", "[1]"), ("eos", "tensor([1, 2])")):
        return
    with pytest.raises(OutriderError, match=rf"^target TabularTarget says {name}="):
        generate(target, [1])


@pytest.mark.parametrize("option", ["sampling", "policy", "chance", "constraint", "gamma", "stops"])
@pytest.mark.parametrize("value", [*WRONG, {}, {1: 2}, int, range(3), True])
def test_options_are_taken_or_refused(option: str, value: Any) -> None:
    if option == "stops" and (value == {} or value == "x"):
        return
    with pytest.raises(OutriderError, match=rf"^{option.removesuffix('s')}"):
        generate(TabularTarget(SIZE), [1], max_new_tokens=2, **{option: value})


def test_an_option_that_is_misspelt_is_named() -> None:
    with pytest.raises(OutriderError, match=r"^gama: did you mean 'gamma'"):
        generate(TabularTarget(SIZE), [1], gama=2)


def test_beam_search_names_the_part() -> None:
    class Mine(TabularTarget):
        def open(self, *_: Any) -> Any:
            raise KeyError("mine")

    with pytest.raises(OutriderError, match=r"^target Mine raised KeyError"):
        beam_search(Mine(SIZE), [1], "bigram", max_new_tokens=2)
