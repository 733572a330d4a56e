"""How hypothesis draws examples over tables and tiny models, and the values that it tries."""

import inspect
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, get_args

from hypothesis import strategies as st

from fuzz.parts import (
    MODEL_VOCAB,
    MODELS,
    POSITIONS,
    TABLE,
    TABLE_DRAFTERS,
    Example,
    drafter_kind,
    reads_the_clock,
)
from outrider import ConfigError
from outrider.base.bounds import check
from outrider.base.calling import hints_of
from outrider.contract.draft import KINDS
from outrider.contract.sampling import LOWEST
from outrider.drafters.dflash.corrector import CORRECTORS
from outrider.plugins.parts import make
from outrider.plugins.registry import installed
from outrider.targets.tabular import TabularTarget
from outrider.testing.table_drafters import CHAINS

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


SMALL_TREES = (None, "2", "iid:2", "paths:2", "top:2")
NEEDS_FILE = ("classifier",)
"""The policies that can't be made without a file."""
OF_ONE_KIND = ("assistant",)
"""The drafters that only targets of one kind can have, none of which is drawn."""


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


@cache
def drafters_for(*, table: bool, encoder: bool) -> tuple[str, ...]:
    """Returns the names of the drafters that a target can have, networks twice for a model."""
    of_tables = {has: TabularTarget(2, encoder=has).offers for has in (False, True)}
    everywhere, networks = list[str](), list[str]()
    for name in sorted(installed().of("drafter").keys() - {*OF_ONE_KIND}):
        settings = {setting: values[0] for setting, values in values_of("drafter", name).items()}
        needs = make("drafter", {"drafter": name, **settings}).needs
        if needs <= of_tables[encoder]:
            everywhere.append(name)
        elif not needs <= of_tables[True]:
            networks.append(name)
    extra = [] if table or encoder else 2 * networks
    return (*everywhere, *TABLE_DRAFTERS, *extra)


@st.composite
def tables(draw: st.DrawFn, sizes: Sequence[int] = (3, 4, 2, 1, 5, 6, 7)) -> dict[str, Any]:
    """Draws the settings of a table with one of some sizes of the vocabulary."""
    return {
        "kind": TABLE,
        "vocab_size": draw(st.sampled_from(sizes)),
        "order": draw(st.sampled_from((2, 1, 0, 3))),
        "seed": draw(st.integers(0, 99)),
        "sharpness": draw(st.sampled_from((1.5, 0.0, 0.5, 6.0))),
        "zeros": draw(st.sampled_from((0.0, 0.0, 0.5))),
        "encoder": draw(st.booleans()),
    }


@st.composite
def models(draw: st.DrawFn) -> dict[str, Any]:
    """Draws the settings of a tiny model of transformers."""
    return {"kind": draw(st.sampled_from(MODELS)), "seed": draw(st.integers(0, 2))}


@st.composite
def drafters(
    draw: st.DrawFn, target: dict[str, Any], trees: Sequence[Any] = TREES
) -> dict[str, Any]:
    """Draws a drafter that a target of these settings can have, and its settings."""
    is_table = target["kind"] == TABLE
    has_encoder = target.get("encoder", target["kind"] == "t5")
    name = draw(st.sampled_from(drafters_for(table=is_table, encoder=has_encoder)))
    if name == "staged_chain":
        is_single = target.get("vocab_size") == 1
        kinds = [kind for kind in CHAINS if not is_single or kind != "disjoint"]
        return {"drafter": name, "kind": draw(st.sampled_from(kinds))}
    if name == "staged_tree":
        return {"drafter": name, "kind": draw(st.sampled_from([*KINDS][1:]))}
    values = dict(values_of("drafter", name))
    if values.get("tree") is TREES:
        values["tree"] = tuple(trees)
    return {"drafter": name, **draw(options(values))}


@st.composite
def verifiers(draw: st.DrawFn, kind: str) -> dict[str, Any]:
    """Draws an acceptance rule, mostly one that takes drafts of a kind."""
    rules = {name: entry.product for name, entry in installed().of("verifier").items()}
    fitting = [name for name, rule in rules.items() if kind in rule.takes]
    is_any = draw(st.integers(0, 39)) == 39
    name = draw(st.sampled_from(list(rules) if is_any else fitting))
    return {"verifier": name, **draw(options(values_of("verifier", name)))}


@st.composite
def policies(draw: st.DrawFn) -> dict[str, Any]:
    """Draws a policy that needs no file."""
    names = [name for name in installed().of("policy") if name not in NEEDS_FILE]
    name = draw(st.sampled_from((*names, *("fixed",) * 5)))
    return {"policy": name, **draw(options(values_of("policy", name)))}


@st.composite
def runs(draw: st.DrawFn, targets: st.SearchStrategy[dict[str, Any]]) -> Example:
    """Draws an example whose texts are written one by one and in a batch."""
    target = draw(targets)
    vocab_size = target.get("vocab_size", MODEL_VOCAB)
    tokens = st.integers(0, vocab_size - 1)
    prompts = draw(st.lists(st.lists(tokens, min_size=1, max_size=9), min_size=1, max_size=3))
    target["eos"] = draw(st.lists(tokens, max_size=1))
    if draw(st.integers(0, 3)) == 3:
        target["max_length"] = max(map(len, prompts)) + draw(st.integers(1, 7))
    drafter = draw(drafters(target))
    constraint = None
    if draw(st.integers(0, 3)) == 3:
        constraint = {
            "forbidden": draw(st.lists(tokens, max_size=3)),
            "end": draw(st.none() | tokens),
        }
    stops = st.lists(
        st.text([chr(ord("a") + t) for t in range(vocab_size)], min_size=1, max_size=3)
    )
    return Example(
        target=target,
        drafter=drafter,
        verifier=draw(verifiers(drafter_kind(drafter))),
        policy=draw(policies()),
        prompts=prompts,
        sampling=draw(sampling(vocab_size)),
        gamma=draw(st.sampled_from((2, 3, 1, 4, 5, 6))),
        budget=draw(st.none() | st.integers(1, 12)),
        max_new_tokens=draw(st.sampled_from((5, *range(1, 15), POSITIONS))),
        stops=draw(stops) if draw(st.integers(0, 4)) == 4 else [],
        constraint=constraint,
    )


@st.composite
def enumerations(draw: st.DrawFn) -> Example:
    """Draws an example so small that the probabilities of its texts can be summed."""
    target = draw(tables((2, 3, 1)))
    tokens = st.integers(0, target["vocab_size"] - 1)
    target["eos"] = draw(st.lists(tokens, max_size=1))
    drafter = draw(drafters(target, SMALL_TREES))
    return Example(
        target=target,
        drafter=drafter,
        verifier=draw(verifiers(drafter_kind(drafter))),
        policy=draw(policies().filter(lambda policy: not reads_the_clock(policy))),
        prompts=[draw(st.lists(tokens, min_size=1, max_size=4))],
        sampling={"temperature": draw(st.sampled_from((1.0, 0.4, 2.0)))}
        | draw(st.sampled_from(({}, {"top_k": 2}, {"top_p": 0.8}, {"min_p": 0.2}))),
        gamma=draw(st.sampled_from((2, 1))),
        budget=draw(st.none() | st.integers(2, 4)),
        max_new_tokens=draw(st.sampled_from((2, 3, 1))),
        enumerate=True,
    )
