"""The values that are tried of each setting of a part: by its annotation, or listed here."""

import inspect
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, get_args

from hypothesis import strategies as st

from outrider import ConfigError
from outrider.base.bounds import check
from outrider.base.calling import hints_of
from outrider.contract.sampling import LOWEST
from outrider.drafters.dflash.corrector import CORRECTORS
from outrider.plugins.registry import installed

Values = Mapping[str, tuple[Any, ...]]
"""The values to try of each setting."""

NUMBERS = (None, False, True, 0, 1, 2, 4, 0.1, 0.5, 1.0)
"""What is tried of a setting, as far as its annotation allows it; names are all tried."""

TREES = (
    *(None, "2", "2x2", "3x2x1", "iid:2", "iid:3x2", "paths:2", "paths:3", "top:2x2"),
    *("dynamic:3", "replay:3", "sequoia:.6,.3", "cost:3,.1,.05"),
    *([[0], [0, 0], [1]], "top:[[0],[0,0],[1]]"),
)
"""The forms of trees; None is a chain."""

BY_NAME: Values = {
    "tree": TREES,
    "path": ("untrained",),
    "max_n": (2, 3),
    "min_n": (1, 2),
    "layers": (None, 1, 2),
    "skipped": (None, 1, 2),
    "corrector": (None, *CORRECTORS),
}
"""Settings that mean the same wherever they occur, and whose annotations don't say enough."""

BY_PART: Mapping[str, Values] = {
    "small_lm": {"layers": (1, 2)},
    "hierarchy": {"layers": (1, 2), "faster": ("prompt_lookup", "bigram")},
    "early_exit": {"path": (None, "untrained"), "layers": (1, 2)},
    "pard": {"model": ("untrained",)},
    "rest": {"tree": (False, True)},
    "hybrid": {
        "chain": (None, None, ["prompt_lookup", "bigram"], ["suffix", "random"]),
        "drafters": (
            ["prompt_lookup", "bigram"],
            [{"drafter": "prompt_lookup", "min_n": 2}, {"drafter": "bigram", "tree": "2x2"}],
            [{"drafter": "prompt_lookup", "min_n": 2}, {"drafter": "random", "tree": "paths:2"}],
        ),
    },
}
"""Settings of single parts, in place of the others."""

SKIPPED = ("dtype", "device", "bits", "vocabulary", "confidence")
"""Settings of how a model is held, and one that excludes trees, which other tests are of."""


@cache
def values_of(role: str, name: str) -> Values:
    """Returns the values to try of each setting of a registered part."""
    entry = installed().of(role)[name]
    hints = hints_of(entry.product)
    tried = {}
    for setting in inspect.signature(entry.factory).parameters:
        if setting not in SKIPPED:
            listed = BY_NAME.get(setting) or tuple(_allowed(setting, hints.get(setting, Any)))
            tried[setting] = BY_PART.get(name, {}).get(setting, listed)
    return {setting: values for setting, values in tried.items() if values not in ((), (None,))}


def _allowed(setting: str, hint: Any) -> Iterator[Any]:
    """Yields the values that an annotation with bounds allows."""
    if hint is Any:
        return
    for value in (*NUMBERS, *_names(hint)):
        try:
            check({setting: hint}, {setting: value})
        except ConfigError:
            continue
        yield value


def _names(hint: Any) -> Iterator[str]:
    """Yields the names that an annotation lists, at any depth."""
    for part in (*get_args(hint), *getattr(hint, "__metadata__", ())):
        yield from [part] if isinstance(part, str) else getattr(part, "names", ())
        yield from _names(part)


@st.composite
def options(draw: st.DrawFn, values: Values) -> dict[str, Any]:
    """Draws a value for each setting."""
    return {name: draw(st.sampled_from(tried)) for name, tried in values.items()}


@st.composite
def sampling(draw: st.DrawFn, vocab_size: int) -> dict[str, Any]:
    """Draws a sampling, often greedy, and otherwise also at extreme temperatures."""
    temperature = draw(st.sampled_from((0.0, 0.0, 1.0, 1.0, 0.05, LOWEST, 3.0)))
    chosen: dict[str, Any] = {"temperature": temperature}
    if temperature:
        chosen["seed"] = draw(st.sampled_from((0, 1, 2, 3, 2**64 - 1)))
        limits: Any = ({}, {"top_k": 1}, {"top_k": vocab_size}, {"top_p": 0.5}, {"top_p": 1e-9})
        more: Any = ({}, {"min_p": 0.3}, {"min_p": 1.0}, {"top_k": 2, "top_p": 0.9})
        chosen |= draw(st.sampled_from(limits)) | draw(st.sampled_from(more))
    return chosen
