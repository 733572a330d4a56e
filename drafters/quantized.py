"""Quantized: the target itself drafts, with weights of eight bits."""

from collections.abc import Sequence
from typing import Any, final

from jaxtyping import Float
from torch import Tensor

from outrider.contract.context import Context, Tokens
from outrider.contract.drafter import Drafter
from outrider.contract.pen import Pen
from outrider.contract.target import Target
from outrider.drafter_parts.tree_forms import parse_tree
from outrider.drafters.small_lm import SmallLM
from outrider.errors import require
from outrider.plugins.hookspecs import Register, hookimpl
from outrider.runtime.first_layers import first_layers
from outrider.runtime.quantized import quantized


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

    Raises `ConfigError` in `bind` unless the target is in float32 on a CPU, and there is a C
    compiler for the native library.
    """

    needs: frozenset[str] = frozenset({"model"})
    autoregressive = True

    def __init__(self, layers: int | None = None, tree: Any = None) -> None:
        is_valid = layers is None or layers >= 1
        require(is_valid, "drafter.layers", layers, "a whole number of at least 1, or null")
        self._layers, self._tree = layers, tree
        self.kind: str = parse_tree(tree).kind
        self._target: Target | None = None

    def bind(self, target: Target) -> None:
        if self._target is target:
            return
        model = target.model
        if self._layers is not None:
            model = first_layers(model, self._layers)
        self._drafter = SmallLM(quantized(model, "drafter quantized"), tree=self._tree)
        self._drafter.bind(target)
        self._target = target

    def propose(self, context: Context, pen: Pen) -> None:
        self._drafter.propose(context, pen)

    def propose_batch(self, pairs: Sequence[tuple[Context, Pen]]) -> None:
        self._drafter.propose_batch(pairs)

    def scores(
        self, text: Sequence[int], extra: Sequence[int], source: Tokens | None = None
    ) -> Float[Tensor, "extra+1 vocab"]:
        """Returns the logits after `text`, and after each of `extra` tokens that continue it."""
        return self._drafter.scores(text, extra, source)


@hookimpl
def register_drafters(register: Register) -> None:
    register("quantized", Quantized)
