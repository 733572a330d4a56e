"""Whatever a part raises or hands back wrongly is one line that names it, in every loop."""

import copy
import re
import sys
from typing import Any

import numpy as np
import pytest
import torch

from outrider import (
    Chance,
    ConfigError,
    Constraint,
    Context,
    Drafter,
    DrafterError,
    OutriderError,
    Pen,
    PluginError,
    Sampling,
    Session,
    TargetError,
    Verdict,
    Verifier,
    build,
    compose,
    decode,
    generate,
    generate_together,
)
from outrider.base.calling import calling
from outrider.contract.composition import ask
from outrider.contract.policy import Fixed
from outrider.drafters.none import NoDraft
from outrider.drafters.random import Random
from outrider.targets.tabular import TabularTarget

SIZE = 6


class Uniform(Drafter):
    def open(self) -> Any:
        return copy.copy(self)

    def propose(self, context: Context, pen: Pen) -> None:
        while pen.open:
            pen.draw(torch.zeros(pen.vocab_size))


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

    def __init__(self, size: int = SIZE) -> None:
        super().__init__(size)

    def open(self, *_: Any) -> Any:
        return self.session()


PARTS: dict[str, type[Any]] = {
    "policy": Fixed,
    "constraint": Constraint,
    "drafter": Uniform,
    "verifier": Nothing,
    "target": Opens,
    "session": Even,
}
METHODS = {
    "policy": ("notice", "depth", "more", "observe", "reset"),
    "constraint": ("begin", "logits", "ends", "steering"),
    "drafter": ("propose", "propose_batch", "open", "bind", "observe", "remember"),
    "verifier": ("verify",),
    "target": ("begin", "constraint", "open", "encode", "computing"),
    "session": ("score", "commit", "features"),
}


def alone(target: Any, drafter: Any, verifier: Any, **parts: Any) -> Any:
    return generate(target, [1], drafter, verifier, max_new_tokens=3, **parts)


def in_a_batch(target: Any, drafter: Any, verifier: Any, **parts: Any) -> Any:
    for role, name in (("policy", "policies"), ("constraint", "constraints")):
        if role in parts:
            parts[name] = [parts.pop(role)] * 2
    return generate_together(target, [[1], [2]], drafter, verifier, max_new_tokens=3, **parts)


def run_with(role: str, part: Any, play: Any) -> Any:
    """Runs a loop in which one part is a given one."""
    parts: dict[str, Any] = {"target": Opens(), "drafter": Uniform(), "verifier": Nothing()}
    if role == "session":
        parts["target"].session = lambda: part
    else:
        parts[role] = part
    return play(sampling=Sampling(temperature=1), **parts)


def with_method(role: str, name: str, method: Any) -> Any:
    return type("Mine", (PARTS[role],), {name: method, "__module__": __name__})()


LOOPS = pytest.mark.parametrize("play", [alone, in_a_batch])


@LOOPS
@pytest.mark.parametrize(
    ("role", "name"), [(role, name) for role, names in METHODS.items() for name in names]
)
def test_an_error_names_the_part_and_the_place(role: str, name: str, play: Any) -> None:
    """In a batch, the scores of all texts are those of the target."""

    def fails(self: Any, *_: Any, **__: Any) -> None:
        raise KeyError("mine")

    named = {"session": "target"}.get(role, role)
    mine = "Opens" if (name, play) == ("score", in_a_batch) else "Mine"
    line = rf"^{named} {mine} raised KeyError: 'mine' \({re.escape(__file__)}:\d+\)$"
    with pytest.raises(OutriderError, match=line) as caught:
        run_with(role, with_method(role, name, fails), play)
    kinds = {"drafter": DrafterError, "target": TargetError}
    assert type(caught.value) is kinds.get(named, PluginError)


PATH = "expected a path from the root of the draft's 2 nodes"
UNUSABLE = [
    ("drafter", "propose", [1], "returned a list: expected a draft that is written with the pen"),
    ("drafter", "open", 3, "returned int, expected Drafter"),
    ("policy", "depth", 9, "returned depth 9, expected 0 to 5"),
    ("policy", "depth", 2.5, "raised TypeError: 'float' object"),
    ("constraint", "begin", None, "returned NoneType, expected Constraint"),
    ("constraint", "logits", [0.0], "returned list, expected Tensor"),
    ("constraint", "logits", torch.zeros(2), r"returned logits of shape \(2,\), expected \(6,\)"),
    ("verifier", "verify", None, "returned NoneType, expected Verdict"),
    ("verifier", "verify", Verdict(None, 0), "raised TypeError: 'NoneType' object"),  # type: ignore
    ("verifier", "verify", Verdict((1,), 0), rf"accepted \(1,\), {PATH}"),
    ("verifier", "verify", Verdict((0, 0), 0), rf"accepted \(0, 0\), {PATH}"),
    ("verifier", "verify", Verdict((9,), 0), rf"accepted \(9,\), {PATH}"),
    ("verifier", "verify", Verdict((), 6), "added the token 6, expected an id below 6"),
    ("target", "encode", "x", "returned str, expected list"),
    ("target", "open", None, "returned NoneType, expected Session"),
    ("target", "computing", 1, "returned int, expected AbstractContextManager"),
    ("target", "begin", 3, "raised TypeError: 'int' object"),
    ("session", "score", torch.zeros(2, 2), r"scored with \(2, 2\), expected logits of shape"),
]


@LOOPS
@pytest.mark.parametrize(("role", "name", "answer", "line"), UNUSABLE)
def test_an_answer_that_can_not_be_used_names_the_part(
    role: str, name: str, answer: Any, line: str, play: Any
) -> None:
    def returns(self: Any, *_: Any, **__: Any) -> Any:
        return answer

    with pytest.raises(OutriderError) as caught:
        run_with(role, with_method(role, name, returns), play)
    named = {"session": "target"}.get(role, role)
    assert re.match(f"{named} Mine {line}", str(caught.value))
    assert "\n" not in str(caught.value)


class Hasty(Nothing):
    verify: Any = lambda self: None


class Asks(NoDraft):
    def propose(self, context: Context, pen: Pen) -> None:
        ask(pen, 1)


class Untrue(NoDraft):
    kind = "tree"


class Writes(NoDraft):
    def propose(self, context: Context, pen: Pen) -> None:
        pen.write(SIZE)


class Skewed(Chance):
    def coins(self, probs: Any) -> Any:
        return [True] * len(probs)

    def categorical(self, probs: Any) -> int:
        return 0

    def named(self, name: str) -> Any:
        raise KeyError("mine")


@pytest.mark.parametrize(
    ("role", "part", "line"),
    [
        ("verifier", Hasty(), r"raised TypeError: .* takes 1 .* \(.*test_calls\.py:\d+\)$"),
        ("drafter", Asks(), "asks the target, expected it to override answer"),
        ("drafter", Untrue(), "writes 'tree' drafts, expected one of chain, paths, "),
        ("drafter", Writes(), r"wrote id 6: the vocabulary has 6 tokens \(.*test_calls\.py:\d+\)$"),
        ("chance", Skewed(), r"raised KeyError: 'mine' \(.*test_calls\.py:\d+\)$"),
    ],
)
def test_a_part_with_a_fault_is_named_with_its_place(role: str, part: Any, line: str) -> None:
    with pytest.raises(OutriderError, match=f"^{role} {type(part).__name__} {line}"):
        run_with(role, part, alone)


@pytest.mark.parametrize("error", [TargetError("lost"), KeyboardInterrupt(), MemoryError("full")])
def test_errors_that_are_not_the_parts_stay_as_they_are(error: BaseException) -> None:
    with pytest.raises(type(error)) as caught, calling("drafter", Uniform()):
        raise error
    assert caught.value is error


def test_the_innermost_part_is_named_once() -> None:
    outer, inner = calling("drafter", Random()), calling("drafter", Uniform())
    with pytest.raises(DrafterError, match=r"^drafter Uniform wrote nothing"), outer, inner:
        raise DrafterError("wrote nothing")


def test_a_drafter_within_another_is_named() -> None:
    with pytest.raises(DrafterError, match=r"^drafter Writes wrote id 6: .*test_calls\.py:\d+\)$"):
        generate(TabularTarget(SIZE), [1], {"drafter": "hybrid", "chain": ["none", Writes()]})


def test_ids_of_other_libraries_are_taken_in_a_verdict() -> None:
    verdict: Any = Verdict((np.int64(0),), torch.tensor(3))  # type: ignore[arg-type]
    rule = with_method("verifier", "verify", lambda *_: verdict)
    round = next(decode(TabularTarget(SIZE), Random(), rule, [0, 1]))
    assert round.tokens[1:] == (3,) and type(round.tokens[1]) is int


def test_a_part_that_can_not_be_made_is_named() -> None:
    config = compose("generate", ["target=tabular", "prompt=x", "drafter=bigram"])
    config.drafter = {"_target_": "builtins.int", "x": 1}
    with pytest.raises(ConfigError, match=r"^drafter int raised ValueError: no sign"):
        build(config.drafter)


class Leaves(TabularTarget):
    """A target that ends the process: on the way to its prompt, or while it is made."""

    where = "encode"

    def __init__(self, **_: Any) -> None:
        self.leave("made")
        super().__init__()

    def encode_turns(self, *_: Any, **__: Any) -> Any:
        self.leave("encode")

    encode = encode_turns

    def leave(self, where: str) -> None:
        if self.where == where:
            sys.exit(0)


@pytest.mark.parametrize("where", ["made", "encode"])
@pytest.mark.parametrize("command", ["generate prompt=[0]", "compare drafters=[none] data=demo"])
def test_a_part_that_exits_ends_no_command_silently(
    run: Any, monkeypatch: pytest.MonkeyPatch, command: str, where: str
) -> None:
    monkeypatch.setattr(Leaves, "where", where)
    words = (*command.split(), "target=tabular", f"target._target_={__name__}.{Leaves.__name__}")
    status, _, err = run(*words)
    assert status == 1 and "Traceback" not in err
    place = rf"\({re.escape(__file__)}:\d+\); --traceback shows where$"
    assert re.search(rf"(?m)^outrider: target Leaves raised SystemExit: 0 {place}", err)
