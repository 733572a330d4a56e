"""The target itself drafts, with weights of four or eight bits."""

import copy
from collections.abc import Sequence
from typing import Any, Literal, Self, final

import torch
from torch import nn

from outrider.base.bounds import Count, checked
from outrider.base.pretrained import Model
from outrider.contract.context import Context
from outrider.contract.drafter import Drafter
from outrider.contract.pen import Pen
from outrider.contract.target import Target
from outrider.drafters.parts.networks.shared_kv import SharedKVDrafting
from outrider.drafters.parts.trees.tree_forms import parse_tree
from outrider.drafters.small_lm import SmallLM
from outrider.extras.cpu.engine import PackedWeights
from outrider.extras.cpu.packed_linear import PackedLinear, require_native
from outrider.extras.cpu.packed_matrix import Panels
from outrider.extras.cpu.panel_layout import DEPTH
from outrider.targets.passes.cached_model import CACHE
from outrider.targets.passes.engine import note_engine
from outrider.targets.passes.first_layers import first_layers, replace_modules


def quantized(model: Model, setting: str, bits: int | None = 8) -> Model:
    """Returns a model with weights of eight or four bits, which shares all else with `model`.

    In float64, which proofs use, the weights are rounded but stored in float64.

    setting: the name of the setting, for messages, such as "drafter quantized".
    bits: 8 or 4. None takes 4 for each layer whose weights are exact in four bits, and 8 for the
        others. The head always has eight, since it decides between all tokens, and so has a layer
        whose inputs don't make whole groups.

    Raises `ConfigError` if the native library does not run the model's products.
    """
    if model.dtype is not torch.float64:
        require_native(model, setting)
    whole: Any = model
    head = whole.get_output_embeddings()

    def replaced(module: nn.Module) -> nn.Module | None:
        if not isinstance(module, PackedLinear) and type(module) is not nn.Linear:
            return None
        if bits == 8 or module is head or module.in_features % DEPTH:  # no whole groups
            return _quantized(module, 8)
        result = _quantized(module, 4)
        is_kept = bits == 4 or torch.equal(result.weight, module.weight.to(result.weight))
        return result if is_kept else _quantized(module, 8)

    result: Model = replace_modules(model, replaced)
    note_engine(result, PackedWeights())
    return result


def loses_nothing(model: Model) -> bool:
    """Returns whether a model that chose its own bits has four in every layer but the head.

    They are chosen where the weights are exact in them, as those of a GGUF file in Q4_1 are.
    """
    whole: Any = model
    head = whole.get_output_embeddings()
    layers = [
        part for part in model.modules() if isinstance(part, PackedLinear) and part is not head
    ]
    bits = [part.packed.bits for part in layers if isinstance(part.packed, Panels)]
    return bool(bits) and set(bits) == {4}


def _quantized(layer: "nn.Linear | PackedLinear", bits: int) -> "nn.Linear | PackedLinear":
    """Returns a layer with weights rounded to 4 or 8 bits, which are unpacked if in float64."""
    if not isinstance(layer, nn.Linear) or layer.weight.dtype is not torch.float64:
        return PackedLinear(layer, bits=bits)
    rounded = copy.copy(layer)
    packed = Panels(layer.weight.detach(), None, bits=bits)
    weight = packed.to_dense().to(layer.weight)
    rounded._parameters = layer._parameters | {"weight": nn.Parameter(weight, requires_grad=False)}
    return rounded


@final
class Quantized(Drafter):
    """Drafts with the target itself in four or eight bits.

    A pass over a few tokens takes as long as its weights take to be read, so one over rounded
    weights takes a sixth to a quarter of the time of one in float32. Rounding hardly changes what
    the model predicts: nearly all tokens are accepted, and the text stays that of the exact
    weights. Nothing is trained. The rounded weights take a fifth to a quarter of the memory of
    float32 weights, in addition (self-speculation with quantized weights, as in QuantSpec,
    2502.10424).

    bits: 4 or 8. Every 32 inputs of an output have a scale of their own, and with 4 an offset.
        Defaults to None: 4 for each layer whose weights are exact in four bits, as those from a
        GGUF file in Q4_1 are (`smollm2`), and 8 for the others. The head always has 8.
    layers: how many of the target's first layers to draft with. Defaults to all.
    tree: the shape of its drafts, as for `small_lm`. Defaults to a chain.
    cache: "target" starts each draft on a copy of the target's keys and values, so that neither the
        prompt nor an accepted token is read again. With "own", the drafter reads the text itself.
        It then works with a target that has states instead of keys and values, and
        texts that are decoded together stay one batch. Defaults to "target".

    Raises `ConfigError` in `bind` unless the target is in float32 or bfloat16 on a CPU, and there
    is a C compiler for the native library.
    """

    @checked("drafter")
    def __init__(
        self,
        bits: Literal[4, 8] | None = None,
        layers: Count | None = None,
        tree: Any = None,
        cache: Literal["target", "own"] = "target",
    ) -> None:
        self._bits, self._layers = bits, layers
        self._tree, self._shape = tree, parse_tree(tree)
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
        rounded = quantized(model, "drafter quantized", self._bits)
        self._drafter = SmallLM(rounded, tree=self._tree)
        self._drafter.bind(target)
        self.models: Sequence[Any] = self._drafter.models
        chosen_freely = self._bits is None and self._layers is None
        self.is_target: bool = chosen_freely and loses_nothing(rounded)
        self._shared_kv = SharedKVDrafting(rounded, target.vocab_size, self._shape)
        # Tested with the exact weights: rounded ones could differ by more than the test allows.
        exact = SharedKVDrafting(model, target.vocab_size, self._shape)
        self._shares_kv = self._cache == "target" and exact.can_start(target)
        self._target = target

    def open(self) -> Self:
        text = copy.copy(self)
        text._drafter, text._shared_kv = self._drafter.open(), self._shared_kv.fresh()
        return text

    def propose(self, context: Context, pen: Pen) -> None:
        self.propose_batch([(context, pen)])

    def propose_batch(self, pairs: Sequence[tuple[Context, Pen]]) -> None:
        if self._shares_kv:
            self._shared_kv.propose_batch(pairs)
        else:
            self._drafter.propose_batch(pairs)
