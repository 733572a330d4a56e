"""Strategies: how hypothesis draws examples, over tables and over tiny transformers."""

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from outrider.contract.draft import KINDS
from outrider.fuzzing.example import Example
from outrider.fuzzing.parts import drafter_kind, reads_the_clock
from outrider.fuzzing.settings import (
    DRAFTERS,
    NETWORKS,
    POLICIES,
    RULES,
    TREES,
    options,
    sampling,
    WITH_TREE,
)
from outrider.fuzzing.targets import MODEL_VOCAB, MODELS, POSITIONS, TABLE
from outrider.plugins.registry import installed
from outrider.testing.stage import CHAINS

GROUPS = ("tables", "transformers")
SMALL_TREES = (None, "2", "iid:2", "paths:2", "top:2")
MOST_CALLS = 800
"""The latest interruption, in calls of Outrider's functions; most runs are shorter than that."""


def examples(group: str, more_drafters: Sequence[str] = ()) -> st.SearchStrategy[Example]:
    """Returns the strategy for a group of targets.

    group: one of GROUPS.
    more_drafters: names of further drafters that are registered; they take their default settings.
    """
    if group == "tables":
        running = runs(tables(), tuple(more_drafters))
        return st.one_of(running, running, running, enumerations(tuple(more_drafters)))
    return runs(models(), tuple(more_drafters))


@st.composite
def tables(draw: st.DrawFn, most: int = 7) -> dict[str, Any]:
    """Draws the settings of a table, of up to `most` tokens."""
    return {
        "kind": TABLE,
        "vocab_size": draw(st.integers(1, most)),
        "order": draw(st.integers(0, 3)),
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
    draw: st.DrawFn, target: dict[str, Any], more: tuple[str, ...], trees: Sequence[Any] = TREES
) -> dict[str, Any]:
    """Draws a drafter that a target of these settings can have, and its settings."""
    vocab_size, is_table = target.get("vocab_size", MODEL_VOCAB), target["kind"] == TABLE
    has_encoder = target.get("encoder", target["kind"] == "t5")
    names = [*DRAFTERS, "staged_chain", *more]
    if vocab_size > 1:
        names.append("staged_tree")
    if has_encoder:
        names.append("shallow_aggressive")
    if not (is_table or has_encoder):
        names += 2 * [*NETWORKS]
    name = draw(st.sampled_from(names))
    if name == "staged_chain":
        kinds = [kind for kind in CHAINS if vocab_size > 1 or kind != "disjoint"]
        return {"drafter": name, "kind": draw(st.sampled_from(kinds))}
    if name == "staged_tree":
        return {"drafter": name, "kind": draw(st.sampled_from([*KINDS][1:]))}
    settings = draw(options({**DRAFTERS, **NETWORKS}.get(name, {})))
    if name in WITH_TREE and (tree := draw(st.sampled_from(trees))) is not None:
        settings["tree"] = tree
    return {"drafter": name, **settings}


@st.composite
def verifiers(draw: st.DrawFn, kind: str) -> dict[str, Any]:
    """Draws an acceptance rule, mostly one that takes drafts of a kind."""
    rules = installed().of("verifier")
    fitting = [name for name, entry in rules.items() if kind in entry.product.takes]
    names = fitting if draw(st.integers(0, 29)) else list(rules)
    name = draw(st.sampled_from(names))
    return {"verifier": name, **draw(options(RULES.get(name, {})))}


@st.composite
def policies(draw: st.DrawFn) -> dict[str, Any]:
    """Draws a policy that needs no file."""
    name = draw(st.sampled_from((*POLICIES, *("fixed",) * 5)))
    return {"policy": name, **draw(options(POLICIES[name]))}


@st.composite
def runs(
    draw: st.DrawFn, targets: st.SearchStrategy[dict[str, Any]], more: tuple[str, ...]
) -> Example:
    """Draws an example of which texts are written, alone and in a batch."""
    target = draw(targets)
    vocab_size = target.get("vocab_size", MODEL_VOCAB)
    tokens = st.integers(0, vocab_size - 1)
    prompts = draw(st.lists(st.lists(tokens, min_size=1, max_size=9), min_size=1, max_size=3))
    target["eos"] = draw(st.lists(tokens, max_size=1))
    if draw(st.integers(0, 3)) == 3:
        target["max_length"] = max(map(len, prompts)) + draw(st.integers(1, 7))
    drafter = draw(drafters(target, more))
    constraint = None
    if draw(st.integers(0, 3)) == 3:
        constraint = {
            "forbidden": draw(st.lists(tokens, max_size=3)),
            "end": draw(st.none() | tokens),
        }
    letters = st.sampled_from([chr(ord("a") + token) for token in range(vocab_size)])
    stops = st.lists(st.lists(letters, min_size=1, max_size=3).map(" ".join), max_size=2)
    return Example(
        target=target,
        drafter=drafter,
        verifier=draw(verifiers(drafter_kind(drafter))),
        policy=draw(policies()),
        prompts=prompts,
        sampling=draw(sampling(vocab_size)),
        gamma=draw(st.integers(1, 6)),
        budget=draw(st.none() | st.integers(1, 12)),
        max_new_tokens=draw(st.integers(1, 14 if target["kind"] == TABLE else POSITIONS)),
        stops=draw(stops) if draw(st.integers(0, 4)) == 4 else [],
        constraint=constraint,
        interrupt=draw(st.integers(1, MOST_CALLS)) if draw(st.integers(0, 7)) == 7 else None,
    )


@st.composite
def enumerations(draw: st.DrawFn, more: tuple[str, ...]) -> Example:
    """Draws an example so small that the probability of each of its texts can be summed."""
    target = draw(tables(most=3))
    tokens = st.integers(0, target["vocab_size"] - 1)
    target["eos"] = draw(st.lists(tokens, max_size=1))
    drafter = draw(drafters(target, more, SMALL_TREES))
    return Example(
        target=target,
        drafter=drafter,
        verifier=draw(verifiers(drafter_kind(drafter))),
        policy=draw(policies().filter(lambda policy: not reads_the_clock(policy))),
        prompts=[draw(st.lists(tokens, min_size=1, max_size=4))],
        sampling={"temperature": draw(st.sampled_from((1.0, 0.4, 2.0)))}
        | draw(st.sampled_from(({}, {"top_k": 2}, {"top_p": 0.8}, {"min_p": 0.2}))),
        gamma=draw(st.integers(1, 2)),
        budget=draw(st.none() | st.integers(2, 4)),
        max_new_tokens=draw(st.integers(1, 3)),
        mode="enumerate",
    )
