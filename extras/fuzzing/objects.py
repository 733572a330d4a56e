"""Random Python objects at every entry of the API, and as the answers of parts."""

import inspect
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st

from outrider.constraints.guidance import grammar, json_schema, regex
from outrider.constraints.penalties import Penalties
from outrider.contract.chance import SampledChance
from outrider.contract.constraint import Constraint
from outrider.contract.context import Context
from outrider.contract.drafter import Drafter
from outrider.contract.pen import Pen
from outrider.contract.policy import Fixed, Policy
from outrider.contract.sampling import Sampling
from outrider.contract.target import Session
from outrider.contract.verifier import Verdict, Verifier
from outrider.decoding.beams.speculation import beam_search
from outrider.decoding.decode import decode
from outrider.decoding.generation import generate, generate_together
from outrider.plugins.config import build, compose
from outrider.plugins.registry import installed, make
from outrider.targets.tabular import TabularTarget

SIZE, LENGTH = 6, 12
"""The vocabulary of the target, and its context window, which bounds every text."""

LEAVES: Mapping[str, Callable[[], Any]] = {
    "none": lambda: None,
    "nan": lambda: float("nan"),
    "infinity": lambda: float("inf"),
    "huge": lambda: 2**70,
    "bytes": lambda: b"hi",
    "half": lambda: "\ud800",
    "object": object,
    "class": lambda: int,
    "function": lambda: len,
    "set": lambda: {1},
    "range": lambda: range(2),
    "generator": lambda: (n for n in (1, 2)),
    "tensor": lambda: torch.tensor([1, 2]),
    "scalar": lambda: torch.tensor(1),
    "float_tensor": lambda: torch.zeros(SIZE),
    "matrix": lambda: torch.zeros(2, SIZE),
    "long_tensor": lambda: torch.zeros(1000),
    "array": lambda: np.array([1, 2]),
    "numpy_int": lambda: np.int64(1),
    "complex": lambda: 1j,
    "sampling": lambda: Sampling(temperature=1),
    "chance": lambda: SampledChance.seeded(1),
    "policy": Fixed,
    "constraint": Constraint,
    "drafter": lambda: make("drafter", "random"),
    "verifier": lambda: make("verifier", "token"),
    "target": lambda: TabularTarget(SIZE),
}
"""Objects that no command line can hold, by the names that stand for them."""

OPTIONS = (
    *("prompt", "drafter", "verifier", "chat", "gamma", "budget", "sampling", "policy", "chance"),
    *("number", "max_new_tokens", "stops", "stop_token_ids", "constraint", "draft_timeout"),
    *("logprobs", "misspelt"),
)
TOGETHER = ("prompts", "batch_size", "policies", "chances", "constraints", "stops")
DECODE = {"target": 0, "drafter": 1, "verifier": 2, "tokens": 3}
BEAMS = ("prompt", "drafter", "gamma", "length_penalty", "early_stopping", "chat", "target")
SAMPLING = ("temperature", "top_k", "top_p", "min_p", "seed")
PENALTIES = ("repetition_penalty", "presence_penalty", "frequency_penalty", "logit_bias")
PEN = ("write", "draw", "branch", "limit", "ask", "apart", "faster", "redraw", "token", "guide")
ANSWERS: Mapping[str, tuple[str, ...]] = {
    "policy": ("depth", "more", "observe", "reset"),
    "constraint": ("begin", "logits", "ends", "steering"),
    "drafter": ("propose", "propose_batch", "open", "kind", "needs", "trees", "remembered"),
    "verifier": ("verify", "takes", "lossless", "coupled"),
    "target": ("begin", "open", "encode", "at_work", "vocab_size", "max_length", "eos", "offers"),
    "session": ("score", "commit"),
}
FACTS = ("kind", "needs", "trees", "remembered", "takes", "lossless", "coupled")
FACTS += ("vocab_size", "max_length", "eos", "offers")
"""Answers that are attributes, and no methods."""
PARTS = ("drafter", "verifier", "policy")
"""The roles whose every setting is tried."""


def _target() -> TabularTarget:
    target = TabularTarget(SIZE)
    target.max_length = LENGTH
    return target


class _Draws(Drafter):
    def propose(self, context: Context, pen: Pen) -> None:
        while pen.open:
            pen.draw(torch.zeros(pen.vocab_size))


class _Full(Policy):
    def depth(self, gamma: int) -> int:
        return gamma


class _Nothing(Verifier):
    takes = frozenset({"chain"})
    lossless = True

    def verify(self, *_: Any) -> Verdict:
        return Verdict((), 0)


class _Even(Session):
    def score(self, draft: Any) -> torch.Tensor:
        return torch.zeros(len(draft) + 1, SIZE)

    def commit(self, verdict: Any) -> None:
        pass


BASES: Mapping[str, type[Any]] = {
    "policy": _Full,
    "constraint": Constraint,
    "drafter": _Draws,
    "verifier": _Nothing,
    "target": TabularTarget,
    "session": _Even,
}


def made(value: Any) -> Any:
    """Returns the object that a plain value stands for."""
    if isinstance(value, Mapping):
        if "object" in value:
            return LEAVES[value["object"]]()
        return {name: made(item) for name, item in value.items()}
    return [made(item) for item in value] if isinstance(value, list) else value


def run_object(entry: str, value: Any) -> None:
    """Hands an object over at an entry, "generate.gamma" for example, and checks the text."""
    group, _, name = entry.partition(".")
    GROUPS[group](name, made(value))


def _generate(name: str, value: Any) -> None:
    options: dict[str, Any] = {"prompt": [0, 1], "max_new_tokens": 4, name: value}
    generation = generate(_target(), options.pop("prompt"), **options)
    _check(generation.tokens)
    if name not in ("prompt", "sampling", "constraint", "chance", "verifier"):
        greedy = generate(_target(), [0, 1], "none", max_new_tokens=LENGTH).tokens
        assert generation.tokens == greedy[: len(generation.tokens)], "another text is written"


def _together(name: str, value: Any) -> None:
    options: dict[str, Any] = {"prompts": [[0, 1]], "max_new_tokens": 3, name: value}
    for generation in generate_together(_target(), options.pop("prompts"), **options):
        _check(generation.tokens)


def _decode(name: str, value: Any) -> None:
    parts = [_target(), _Draws(), make("verifier", "token"), [0, 1]]
    parts[DECODE[name]] = value
    for round in decode(*parts, max_new_tokens=3):
        _check(round.tokens)


def _beams(name: str, value: Any) -> None:
    options = {"target": _target(), "prompt": [1], "drafter": "bigram", name: value}
    for tokens in beam_search(**options, max_new_tokens=3).tokens:
        _check(tokens)


def _sampling(name: str, value: Any) -> None:
    probs = Sampling(**{"temperature": 1.0, name: value}).probs(torch.arange(4.0))
    assert abs(float(probs.sum()) - 1) < 1e-5 and bool((probs >= 0).all()), "no distribution"


def _penalties(name: str, value: Any) -> None:
    _generate("constraint", Penalties(**{name: value}))


def _function(name: str, value: Any) -> None:
    functions: dict[str, Callable[[Any], Any]] = {
        "regex": regex,
        "grammar": grammar,
        "json_schema": json_schema,
        "compose": compose,
        "overrides": partial(compose, "generate"),
        "build": build,
    }
    functions[name](value)


def _pen(name: str, value: Any) -> None:
    def propose(self: Any, context: Context, pen: Pen) -> None:
        arguments = (torch.zeros(SIZE), value) if name == "branch" else (value,)
        getattr(pen, name)(*arguments)

    drafter = type("Mine", (_Draws,), {"propose": propose})()
    _check(generate(_target(), [0, 1], drafter, max_new_tokens=3).tokens)


def _answer(name: str, value: Any) -> None:
    role, _, name = name.partition(".")

    def answer(self: Any, *_: Any, **__: Any) -> Any:
        return value

    part = type("Mine", (BASES[role],), {} if name in FACTS else {name: answer})
    parts: dict[str, Any] = {"target": _target(), "drafter": _Draws(), "verifier": _Nothing()}
    if role == "session":
        parts["target"].open = lambda *_: part()
    else:
        parts[role] = part(SIZE) if role == "target" else part()
        if name in FACTS:
            _say(parts[role], name, value)
    target, drafter, verifier = (parts.pop(role) for role in ("target", "drafter", "verifier"))
    sampling = Sampling(temperature=1)
    options = {"max_new_tokens": 3, "sampling": sampling, **parts}
    _check(generate(target, [0, 1], drafter, verifier, **options).tokens)


def _say(part: Any, name: str, value: Any) -> None:
    """Has a part say something of itself."""
    kind = type(part)
    if isinstance(getattr(kind, name, None), property):
        setattr(kind, name, property(lambda _: value))
    else:
        setattr(part, name, value)


def _verdict(name: str, value: Any) -> None:
    verdict = Verdict(**{"accepted": (), "next_token": 0, name: value})
    _answer("verifier.verify", verdict)


def _part(name: str, value: Any) -> None:
    role, part, setting = name.split(".")
    made_part = make(role, part, **{setting: value})
    others = {"drafter": "random", role: made_part}
    _check(generate(_target(), [0, 1], max_new_tokens=3, **others).tokens)


GROUPS: Mapping[str, Callable[[str, Any], None]] = {
    "generate": _generate,
    "together": _together,
    "decode": _decode,
    "beams": _beams,
    "sampling": _sampling,
    "penalties": _penalties,
    "function": _function,
    "pen": _pen,
    "answer": _answer,
    "verdict": _verdict,
    "part": _part,
}


@cache
def entries() -> tuple[str, ...]:
    """Returns the names of all entries."""
    names = {
        "generate": OPTIONS,
        "together": TOGETHER,
        "decode": tuple(DECODE),
        "beams": BEAMS,
        "sampling": SAMPLING,
        "penalties": PENALTIES,
        "function": ("regex", "grammar", "json_schema", "compose", "overrides", "build"),
        "pen": PEN,
        "answer": tuple(f"{role}.{name}" for role, names in ANSWERS.items() for name in names),
        "verdict": ("accepted", "next_token"),
        "part": tuple(_settings_of_parts()),
    }
    return tuple(f"{group}.{name}" for group, some in names.items() for name in some)


def _settings_of_parts() -> list[str]:
    return [
        f"{role}.{name}.{setting}"
        for role in PARTS
        for name, entry in installed().of(role).items()
        for setting in inspect.signature(entry.factory).parameters
    ]


def _check(tokens: Any) -> None:
    fits = all(type(token) is int and 0 <= token < SIZE for token in tokens)
    assert fits, f"the text is {list(tokens)}"


def objects() -> st.SearchStrategy[dict[str, Any]]:
    """Returns the strategy for what `run_object` takes."""
    plain = (
        st.integers(-2, LENGTH)
        | st.sampled_from((0.5, 2.5, -1.0, 1e300))
        | st.booleans()
        | st.text("ab,{}=[] ", max_size=4)
        | st.sampled_from([{"object": name} for name in LEAVES])
    )
    values = st.recursive(
        plain,
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.text("abc", min_size=1, max_size=2), inner, max_size=2)
        ),
        max_leaves=4,
    )
    return st.fixed_dictionaries({"entry": st.sampled_from(entries()), "value": values})
