"""The engine for CPUs: packed weights, and a native library for decoders of Llama's kind."""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, ClassVar, final

import torch
from torch import Tensor, nn

from outrider.base.pretrained import Cache, Model
from outrider.extras.cpu.library import has_tiles, missing
from outrider.extras.cpu.native_layer import native_layer
from outrider.extras.cpu.native_pass import KINDS, is_used_for, native_pass
from outrider.extras.cpu.native_weights import native_weights
from outrider.extras.cpu.packed_batch import PackedBatch
from outrider.extras.cpu.packed_linear import (
    NATIVE,
    can_pack,
    pack,
    packing,
    require_native,
    stored_type,
)
from outrider.extras.cpu.packed_matrix import is_unwrapped
from outrider.extras.cpu.processor import cpu_features, one_thread
from outrider.targets.batches.batch_cache import BatchEngine
from outrider.targets.passes.engine import note_engine
from outrider.targets.passes.pass_input import Pass, PassInput, in_parts
from outrider.targets.stored import STORED

QUANTIZE: dict[str, int | None] = {"int8": 8, "int4": 4, STORED: None}
"""The types that weights can be rounded to, with their bits; stored ones have their own."""

NO_KERNEL = "this processor has no packed kernels for a model of its precision and device"


@final
class PackedWeights(BatchEngine):
    """Runs models on a CPU, with weights in the memory layout of the processor's kernels.

    A decoder of Llama's kind runs in the native library where there is a C compiler; any other
    model runs by its own modules, on packed linear layers.
    """

    automatic: ClassVar[bool] = True
    quantizes: ClassVar[tuple[str, ...]] = tuple(QUANTIZE)

    def refusal(self, model: Model) -> str:
        wrapped = (weight for weight in model.parameters() if not is_unwrapped(weight))
        if (weight := next(wrapped, None)) is not None:  # such as torchao's rounded ones
            return f"its weights are {type(weight).__name__}"
        if method := getattr(model, "quantization_method", None):
            return f"its weights are rounded by {getattr(method, 'value', method)}"
        if hasattr(model, "_hf_hook"):
            return "accelerate moves its parts between devices"
        return "" if can_pack(model) else NO_KERNEL

    def prepare(self, model: Model, quantize: str | None = None) -> None:
        if quantize is not None:
            require_native(model, f"quantize={quantize!r}")
        pack(model, bits=None if quantize is None else QUANTIZE[quantize])

    def prepare_network(self, network: nn.Module, *, may_round: bool = False) -> None:
        if can_pack(network):
            pack(network, bits=8 if may_round and not missing() else None)
            for part in network.modules():
                note_engine(part, self)

    def run_pass(self, model: Model, cache: Cache, inputs: PassInput) -> Pass:
        if not is_used_for(model):
            return super().run_pass(model, cache, inputs)
        if inputs.mask is not None or inputs.positions is not None:
            return native_pass(model, cache, inputs)
        return in_parts(inputs, partial(native_pass, model, cache))

    def run_layer(
        self, layer: nn.Module, inputs: Tensor, residual: Tensor, **options: Any
    ) -> Tensor | None:
        return native_layer(layer, inputs, residual, **options)

    def new_batch(self, model: Model, sequences: int, capacity: int) -> PackedBatch | None:
        return PackedBatch(model, sequences, capacity) if is_used_for(model) else None

    def cache_dtype(self, model: Model) -> torch.dtype:
        return native_weights(model).cache_dtype if is_used_for(model) else model.dtype

    def threads(self, model: Model) -> AbstractContextManager[None]:
        return one_thread() if packing(model) == NATIVE else nullcontext()

    def layout(self, model: nn.Module) -> str:
        return packing(model) or "plain"

    def runs_by(self, model: Model) -> str:
        who = "the native library" if is_used_for(model) else super().runs_by(model)
        return f"{who} on {stored_type(model)} weights"

    def vouches(self, model: Model) -> bool:
        """Returns whether the library runs a model: its masks and positions are our own."""
        return is_used_for(model)

    def facts(self) -> Mapping[str, Any]:
        """Returns whether the native library is there, and runs bfloat16 on tiles (AMX)."""
        why = {"no_native_library": missing()} if missing() else {}
        found = {"native_library": not why, "native_tiles": has_tiles()}
        decoders = {"decoders_run_natively": [] if missing() else list(KINDS)}
        return found | why | decoders | {"cpu_features": cpu_features()}
