"""Python objects, by names and plain values that stand for them."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st

from outrider.contract.chance import SampledChance
from outrider.contract.constraint import Constraint
from outrider.contract.policy import Fixed
from outrider.contract.sampling import Sampling
from outrider.plugins.registry import make
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


def small_target() -> TabularTarget:
    """Returns a target that writes short texts only."""
    target = TabularTarget(SIZE)
    target.max_length = LENGTH
    return target


def made(value: Any) -> Any:
    """Returns the object that a plain value stands for."""
    if isinstance(value, Mapping):
        if "object" in value:
            return LEAVES[value["object"]]()
        return {name: made(item) for name, item in value.items()}
    return [made(item) for item in value] if isinstance(value, list) else value


def check_tokens(tokens: Any) -> None:
    """Checks that what was written are ids."""
    fits = all(type(token) is int and 0 <= token < SIZE for token in tokens)
    assert fits, f"the text is {list(tokens)}"


def values() -> st.SearchStrategy[Any]:
    """Returns the strategy for what `made` takes."""
    plain = (
        st.integers(-2, LENGTH)
        | st.sampled_from((0.5, 2.5, -1.0, 1e300))
        | st.booleans()
        | st.text("ab,{}=[] ", max_size=4)
        | st.sampled_from([{"object": name} for name in LEAVES])
    )
    return st.recursive(
        plain,
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.text("abc", min_size=1, max_size=2), inner, max_size=2)
        ),
        max_leaves=4,
    )
