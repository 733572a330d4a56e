"""Every built-in drafter keeps the contract, in each setting that changes how it drafts."""

from collections.abc import Callable
from typing import Any

from tiny.conformance import makers, parametrize_with_shapes

from outrider.plugins.registry import installed
from outrider.testing import parametrize_with_checks

WHOLE = (
    *("none", "random", "unigram", "bigram", "bigram, order: 4", "bigram, tree: 2x2"),
    *("bigram, tree: dynamic:2", "prompt_lookup", "prompt_lookup, max_n: 2, newest: false"),
    *("suffix", "token_recycling", "shallow_aggressive", "rest, path: untrained"),
    *("lookahead_decoding", "lookahead_decoding, window: 2, ngram: 2"),
    *("small_lm, layers: 1", "small_lm, layers: 1, tree: 2x2", "hierarchy", "quantized"),
    "hybrid, drafters: [prompt_lookup, random]",
    "hybrid, drafters: [{drafter: prompt_lookup, min_n: 2}, small_lm]",
    "hybrid, drafters: [{drafter: prompt_lookup, min_n: 2}, {drafter: eagle, path: untrained}]",
    "hybrid, drafters: [prompt_lookup, {drafter: eagle, path: untrained, tree: 3x2}]",
    "hybrid, chain: [random, suffix], steps: 1",
    "hybrid, merge: [suffix, token_recycling]",
    *("swift, window: 8", "self_sparse, sink: 1, window: 2"),
    "self_sparse, sink: 0, window: 2, picked: 1, observed: 2",
    *("early_exit, path: untrained", "mtp, path: untrained", "pard, model: untrained"),
    *("eagle, path: untrained", "eagle, path: untrained, tree: dynamic:3"),
    *("eagle3, path: untrained", "eagle3, path: untrained, tree: dynamic:3"),
    *("medusa, path: untrained", "medusa, path: untrained, tree: 2x1"),
    *("mlp_speculator, path: untrained", "mlp_speculator, path: untrained, tree: 2x1"),
    *("falcon, path: untrained, block: 2", "falcon, path: untrained, block: 2, tree: 2x1"),
    *("hydra, path: untrained, tree: 2x1", "redrafter, path: untrained, tree: dynamic:2"),
    *("peagle, path: untrained, tree: 2x2", "dflash, path: untrained, block: 4"),
    "dflash, path: untrained, block: 4, confidence: 0.3",
)
SHAPES = (
    *("random, tree: 2x2", "random, tree: iid:2x2", "self_sparse, sink: 1, window: 2, layers: 1"),
    *(f"small_lm, layers: 1, tree: {tree}" for tree in ("iid:2x2", "paths:2", "top:2x2")),
    *(f"small_lm, layers: 1, tree: {tree}" for tree in ("dynamic:2", "'sequoia:.5,.2'")),
    "small_lm, layers: 1, tree: 'cost:3,.05,.02'",
    *(f"eagle, path: untrained, tree: {tree}" for tree in ("2x1", "iid:2x1", "top:2x2")),
    "eagle, path: untrained, tree: [[0], [1], [0, 0]]",
    *(f"eagle3, path: untrained, tree: {tree}" for tree in ("2x1", "top:2x2")),
    *(f"medusa, path: untrained, tree: {tree}" for tree in ("top:2x2", "'top:[[0],[1],[0,0]]'")),
    *(f"mlp_speculator, path: untrained, tree: {tree}" for tree in ("iid:2x1", "top:2x2")),
    *("mlp_speculator, path: untrained, tree: dynamic:3", "falcon, path: untrained, block: 1"),
    *("falcon, path: untrained, block: 3", "falcon, path: untrained, block: 2, tree: dynamic:4"),
    "falcon, path: untrained, block: 2, tree: top:2x2x1",
    *("online", "online, order: 3, tree: 2x2"),
)
"""Of drafters of which one tree passes all of the kit, but for `online`: that takes long."""


@parametrize_with_checks(makers(WHOLE))
def test_a_drafter_keeps_the_contract(
    make: Callable[[], Any], check: Callable[[Any], None]
) -> None:
    check(make)


@parametrize_with_shapes(makers(SHAPES))
def test_shapes_keep_the_contract(make: Callable[[], Any], check: Callable[[Any], None]) -> None:
    check(make)


def test_every_drafter_is_checked() -> None:
    names = {text.split(",")[0] for text in (*WHOLE, *SHAPES)}
    assert names == set(installed().of("drafter"))
