"""The engine that compiles passes of a few sizes into graphs."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, final
from weakref import WeakKeyDictionary

import torch
from torch import nn

from outrider.extras.cpu import fused_decoder
from outrider.extras.cpu.compiled_cache import CompiledCache, uncompiled
from outrider.targets.passes.engine import Engine
from outrider.targets.passes.growing_cache import GrowingCache
from outrider.targets.passes.pass_input import PassCache
from outrider.targets.self_test import self_test

if TYPE_CHECKING:
    from transformers import PreTrainedModel

GRAPHS = 64
"""How many graphs a process may make."""

Compiler = Callable[[Callable[..., Any]], Callable[..., Any]]

_compiled: "WeakKeyDictionary[nn.Module, Callable[..., Any]]" = WeakKeyDictionary()


@final
class CompiledPasses(Engine):
    """Compiles a decoder of Llama's kind, each size of pass on its first use.

    Only the sequences of the model itself run compiled: those of its first layers, and batches,
    are left to its modules.

    compiler: turns a plain function into a fast one. Defaults to `torch.compile`, with CUDA graphs
        on a GPU ("reduce-overhead"). On a CPU its graphs could hold packed weights ("freezing"),
        but each size would hold a copy, and still be slower than `packed`. A compiler must not make
        numbers dynamic (`dynamic=False`), or it confuses which states are requested.
    """

    def __init__(self, compiler: Compiler | None = None) -> None:
        self._compiler = compiler

    def refusal(self, model: "PreTrainedModel") -> str:
        if fused_decoder.supports(model):
            return ""
        kinds = ", ".join(fused_decoder.KINDS)
        return f"{type(model).__name__} is none of the kinds that are compiled ({kinds})"

    def prepare(self, model: "PreTrainedModel", quantize: str | None = None) -> None:
        self_test(model)  # its modules: the graphs have other sizes than the passes of the test
        mode = "reduce-overhead" if model.device.type == "cuda" else "default"

        def compile_it(function: Callable[..., Any]) -> Callable[..., Any]:
            return torch.compile(function, fullgraph=True, dynamic=False, mode=mode)

        # One graph for each size and capacity is intended: raise torch's limit, which would warn.
        dynamo: Any = torch._dynamo.config
        dynamo.recompile_limit = max(dynamo.recompile_limit, GRAPHS)
        _compiled[model] = (self._compiler or compile_it)(uncompiled(model))

    def new_cache(self, model: "PreTrainedModel") -> GrowingCache | PassCache:
        if model not in _compiled:
            return super().new_cache(model)
        return CompiledCache(model, _compiled[model])

    def runs_by(self, model: "PreTrainedModel") -> str:
        return "compiled passes"

    def layout(self, model: nn.Module) -> str:
        return "compiled" if model in _compiled else super().layout(model)

    def can_repeat_test(self, model: "PreTrainedModel") -> bool:
        return model not in _compiled
