"""How hypothesis draws examples, over tables and over tiny transformers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, final

from hypothesis import strategies as st

from outrider.contract.draft import KINDS
from outrider.extras.fuzzing.attempt import Attempt
from outrider.extras.fuzzing.configs import configs
from outrider.extras.fuzzing.example import Example
from outrider.extras.fuzzing.objects import objects
from outrider.extras.fuzzing.parts import TABLE_DRAFTERS, drafter_kind, reads_the_clock
from outrider.extras.fuzzing.settings import (
    DRAFTERS,
    NETWORKS,
    POLICIES,
    RULES,
    TREES,
    WITH_TREE,
    options,
    sampling,
)
from outrider.extras.fuzzing.targets import MODEL_VOCAB, MODELS, POSITIONS, TABLE
from outrider.extras.fuzzing.templates import templates
from outrider.extras.fuzzing.tokenizers import tokenizers
from outrider.plugins.registry import installed
from outrider.testing.table_drafters import CHAINS

ATTEMPTS: Mapping[str, Callable[[], st.SearchStrategy[dict[str, Any]]]] = {
    "objects": objects,
    "tokenizers": tokenizers,
    "templates": templates,
    "configs": configs,
}
"""By kind of attempt, what draws its values."""
GROUPS = ("tables", "transformers", *ATTEMPTS)
SMALL_TREES = (None, "2", "iid:2", "paths:2", "top:2")
MOST_CALLS = 800
"""The latest interruption, in calls of Outrider's functions; most runs make fewer."""


@final
@dataclass(frozen=True, slots=True)
class Pool:
    """The parts to choose from.

    more_drafters: names of further registered drafters, which take their default settings.
    turn: the rotation of each list of names. Hypothesis draws the first item most often.
    """

    more_drafters: tuple[str, ...] = ()
    turn: int = 0

    def one_of(self, names: Sequence[str]) -> st.SearchStrategy[str]:
        """Returns the strategy for one of some names."""
        first = self.turn % len(names)
        return st.sampled_from([*names[first:], *names[:first]])


def examples(group: str, pool: Pool) -> st.SearchStrategy[Example | Attempt]:
    """Returns the strategy for a group of targets, or a kind of attempt.

    group: one of GROUPS.
    """
    installed()  # imported here, not while an example is drawn
    if group in ATTEMPTS:
        return ATTEMPTS[group]().map(partial(Attempt, group))
    if group == "tables":
        running = runs(tables(), pool)
        return st.one_of(running, running, running, enumerations(pool))
    return runs(models(pool), pool)


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
def models(draw: st.DrawFn, pool: Pool) -> dict[str, Any]:
    """Draws the settings of a tiny model of transformers."""
    return {"kind": draw(pool.one_of(MODELS)), "seed": draw(st.integers(0, 2))}


@st.composite
def drafters(
    draw: st.DrawFn, target: dict[str, Any], pool: Pool, trees: Sequence[Any] = TREES
) -> dict[str, Any]:
    """Draws a drafter that a target of these settings can have, and its settings."""
    vocab_size, is_table = target.get("vocab_size", MODEL_VOCAB), target["kind"] == TABLE
    has_encoder = target.get("encoder", target["kind"] == "t5")
    names = [*DRAFTERS, *TABLE_DRAFTERS, *pool.more_drafters]
    if has_encoder:
        names.append("shallow_aggressive")
    if not (is_table or has_encoder):
        names += 2 * [*NETWORKS]
    name = draw(pool.one_of(names))
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
def verifiers(draw: st.DrawFn, kind: str, pool: Pool) -> dict[str, Any]:
    """Draws an acceptance rule, mostly one that takes drafts of a kind."""
    rules = installed().of("verifier")
    fitting = [
        name for name, entry in rules.items() if entry.product and kind in entry.product.takes
    ]
    is_any = draw(st.integers(0, 39)) == 39
    name = draw(pool.one_of(list(rules) if is_any else fitting))
    return {"verifier": name, **draw(options(RULES.get(name, {})))}


@st.composite
def policies(draw: st.DrawFn, pool: Pool) -> dict[str, Any]:
    """Draws a policy that needs no file."""
    name = draw(pool.one_of((*POLICIES, *("fixed",) * 5)))
    return {"policy": name, **draw(options(POLICIES[name]))}


@st.composite
def runs(draw: st.DrawFn, targets: st.SearchStrategy[dict[str, Any]], pool: Pool) -> Example:
    """Draws an example whose texts are written one by one and in a batch."""
    target = draw(targets)
    vocab_size = target.get("vocab_size", MODEL_VOCAB)
    tokens = st.integers(0, vocab_size - 1)
    prompts = draw(st.lists(st.lists(tokens, min_size=1, max_size=9), min_size=1, max_size=3))
    target["eos"] = draw(st.lists(tokens, max_size=1))
    if draw(st.integers(0, 3)) == 3:
        target["max_length"] = max(map(len, prompts)) + draw(st.integers(1, 7))
    drafter = draw(drafters(target, pool))
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
        verifier=draw(verifiers(drafter_kind(drafter), pool)),
        policy=draw(policies(pool)),
        prompts=prompts,
        sampling=draw(sampling(vocab_size)),
        gamma=draw(st.sampled_from((2, 3, 1, 4, 5, 6))),
        budget=draw(st.none() | st.integers(1, 12)),
        max_new_tokens=draw(st.sampled_from((5, *range(1, 15), POSITIONS))),
        stops=draw(stops) if draw(st.integers(0, 4)) == 4 else [],
        constraint=constraint,
        interrupt=draw(st.integers(1, MOST_CALLS)) if draw(st.integers(0, 7)) == 7 else None,
    )


@st.composite
def enumerations(draw: st.DrawFn, pool: Pool) -> Example:
    """Draws an example so small that the probabilities of its texts can be summed."""
    target = draw(tables((2, 3, 1)))
    tokens = st.integers(0, target["vocab_size"] - 1)
    target["eos"] = draw(st.lists(tokens, max_size=1))
    drafter = draw(drafters(target, pool, SMALL_TREES))
    return Example(
        target=target,
        drafter=drafter,
        verifier=draw(verifiers(drafter_kind(drafter), pool)),
        policy=draw(policies(pool).filter(lambda policy: not reads_the_clock(policy))),
        prompts=[draw(st.lists(tokens, min_size=1, max_size=4))],
        sampling={"temperature": draw(st.sampled_from((1.0, 0.4, 2.0)))}
        | draw(st.sampled_from(({}, {"top_k": 2}, {"top_p": 0.8}, {"min_p": 0.2}))),
        gamma=draw(st.sampled_from((2, 1))),
        budget=draw(st.none() | st.integers(2, 4)),
        max_new_tokens=draw(st.sampled_from((2, 3, 1))),
        mode="enumerate",
    )
