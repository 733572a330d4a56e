"""Quantized: the target itself drafts, with weights of eight bits."""

from collections.abc import Sequence
from typing import Any, final

from outrider.contract.context import Context
from outrider.contract.drafter import Drafter
from outrider.contract.pen import Pen
from outrider.contract.target import Target
from outrider.drafter_parts.lent_drafts import LentDrafting
from outrider.drafter_parts.tree_forms import parse_tree
from outrider.drafters.small_lm import SmallLM
from outrider.errors import require
from outrider.plugins.hookspecs import Register, hookimpl
from outrider.runtime.cached_model import CACHE
from outrider.runtime.first_layers import first_layers
from outrider.runtime.quantized import quantized

CACHES = ("target", "own")


@final
class Quantized(Drafter):
    """Drafts with the target itself, its weights rounded to eight bits.

    A pass over a few tokens takes as long as its weights take to be read, so one over weights of
    eight bits takes about a third of the time of one in float32. Rounding hardly changes what the
    model predicts: nearly all tokens are accepted, and the text stays that of the exact weights.
    Nothing is trained. The rounded weights take a quarter of the memory of float32 weights, in
    addition (self-speculation with quantized weights, as in QuantSpec, 2502.10424).

    layers: how many of the target's first layers to draft with. Defaults to all.
    tree: the shape of its drafts, as for `small_lm`. Defaults to a chain.
    cache: "target" starts each draft on a copy of the target's keys and values, so that neither the
        prompt nor an accepted token is read again. With "own", the drafter reads the text itself.
        It then works in beam search, with a target that has states instead of keys and values, and
        texts that are decoded together stay one batch. Defaults to "target".

    Raises `ConfigError` in `bind` unless the target is in float32 or bfloat16 on a CPU, and there
    is a C compiler for the native library.
    """

    def __init__(self, layers: int | None = None, tree: Any = None, cache: str = "target") -> None:
        is_valid = layers is None or layers >= 1
        require(is_valid, "drafter.layers", layers, "a whole number of at least 1, or null")
        require(cache in CACHES, "drafter.cache", cache, " or ".join(CACHES))
        self._layers, self._tree, self._shape = layers, tree, parse_tree(tree)
        self._cache = cache
        self.kind: str = self._shape.kind
        # The target's own keys are exact, so a token's distribution depends on the draft's start.
        self.autoregressive: bool = cache == "own"
        self.needs: frozenset[str] = frozenset({"model"} if cache == "own" else {"model", CACHE})
        self._target: Target | None = None

    def bind(self, target: Target) -> None:
        if self._target is target:
            return
        model = target.model
        if self._layers is not None:
            model = first_layers(model, self._layers)
        rounded = quantized(model, "drafter quantized")
        self._drafter = SmallLM(rounded, tree=self._tree)
        self._drafter.bind(target)
        self._lent = LentDrafting(rounded, target.vocab_size, self._shape)
        # Tested with the exact weights: rounded ones could differ by more than the test allows.
        exact = LentDrafting(model, target.vocab_size, self._shape)
        self._is_lent = self._cache == "target" and exact.can_start(target)
        self._target = target

    def propose(self, context: Context, pen: Pen) -> None:
        self.propose_batch([(context, pen)])

    def propose_batch(self, pairs: Sequence[tuple[Context, Pen]]) -> None:
        if self._is_lent:
            self._lent.propose_batch(pairs)
        else:
            self._drafter.propose_batch(pairs)


@hookimpl
def register_drafters(register: Register) -> None:
    register("quantized", Quantized)
