"""Quantized: the target itself drafts, with weights of eight bits."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, final

import torch

from outrider.contract.context import Context, Tokens
from outrider.contract.draft import Draft
from outrider.contract.drafter import Drafter
from outrider.contract.pen import Pen
from outrider.contract.target import Target
from outrider.drafter_parts.cached_text import CachedText
from outrider.drafter_parts.lent_drafts import TOGETHER, are_lent_together, draft_lent
from outrider.drafter_parts.tree_forms import parse_tree
from outrider.drafters.small_lm import SmallLM
from outrider.errors import OutriderError, require
from outrider.plugins.hookspecs import Register, hookimpl
from outrider.runtime.cached_model import CACHE
from outrider.runtime.first_layers import first_layers
from outrider.runtime.quantized import quantized

if TYPE_CHECKING:
    from transformers import PreTrainedModel

CACHES = ("target", "own")


@final
class Quantized(Drafter):
    """Drafts with the target itself, its weights rounded to eight bits.

    A pass over a few tokens takes as long as its weights take to be read, so one over weights of
    eight bits takes about a third of the time in float32. Rounding hardly changes what the model
    says: nearly all tokens are accepted, and the text stays that of the exact weights. Nothing is
    trained, and the memory of another quarter of the weights is needed (self-speculation with
    quantized weights, as in QuantSpec, 2502.10424).

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
        # What the target has read is exact, so a token's distribution depends on the draft's start.
        self.autoregressive: bool = cache == "own"
        self.needs: frozenset[str] = frozenset({"model"} if cache == "own" else {"model", CACHE})
        self._target: Target | None = None

    def bind(self, target: Target) -> None:
        if self._target is target:
            return
        model = target.model
        if self._layers is not None:
            model = first_layers(model, self._layers)
        self._rounded = quantized(model, "drafter quantized")
        self._drafter = SmallLM(self._rounded, tree=self._tree)
        self._drafter.bind(target)
        self._is_lent = self._cache == "target" and _can_be_lent(target, model)
        self._vocab_size = target.vocab_size
        self._text = CachedText(self._rounded, self._vocab_size)
        self._target = target

    def propose(self, context: Context, pen: Pen) -> None:
        if not self._is_lent:
            self._drafter.propose(context, pen)
        elif self._may_draft(context, pen):
            base = self._text.follow_lender(context.tokens, context.features)
            self._text.grow(self._shape, pen, base)

    def propose_batch(self, pairs: Sequence[tuple[Context, Pen]]) -> None:
        if not self._is_lent:
            self._drafter.propose_batch(pairs)
            return
        pairs = [pair for pair in pairs if self._may_draft(*pair)]
        for first in range(0, len(pairs), TOGETHER):
            group = pairs[first : first + TOGETHER]
            if len(group) > 1 and not self.trees and are_lent_together([own for own, _ in group]):
                draft_lent(self._rounded, self._vocab_size, group)
            else:
                super().propose_batch(group)

    def _may_draft(self, context: Context, pen: Pen) -> bool:
        """Limits a draft to what the model can read, and returns whether it can begin."""
        reach = self._drafter.reach(len(context.tokens))
        if reach is not None:
            pen.limit(reach)
        return pen.open and "keys.0" in context.features


@torch.no_grad()
def _can_be_lent(target: Target, model: "PreTrainedModel") -> bool:
    """Returns whether a model goes on from the target's keys and values as from its own.

    Otherwise the drafter reads the text itself.
    """
    size = target.vocab_size
    text = Tokens([size // 2, size // 3, size // 4])
    right = CachedText(model, size).follow(text)
    try:
        session = target.open(text[:-1], frozenset({CACHE}))
        session.score(Draft())
        logits = CachedText(model, size).follow_lender(text, session.features())
    except OutriderError:
        raise
    except Exception:  # noqa: BLE001  caches of other kinds fail in any way
        return False
    return torch.allclose(logits.float(), right.float(), atol=0.05 * float(right.float().std()))


@hookimpl
def register_drafters(register: Register) -> None:
    register("quantized", Quantized)
