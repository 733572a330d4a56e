"""The engine that compiles passes of a few sizes into graphs."""

from collections.abc import Callable
from typing import Any, final
from weakref import WeakKeyDictionary

import torch
from torch import nn

from outrider.base.errors import ConfigError
from outrider.base.pretrained import Model
from outrider.extras.cpu.compiled_cache import CompiledCache, takes_places, uncompiled
from outrider.targets.passes.block_masks import attention
from outrider.targets.passes.encoded import has_encoder
from outrider.targets.passes.engine import Engine
from outrider.targets.passes.growing_cache import GrowingCache
from outrider.targets.passes.pass_input import PassCache, PassInput
from outrider.targets.passes.recurrent import has_states
from outrider.targets.passes.run_pass import run_pass
from outrider.targets.self_test import self_test
from outrider.targets.self_test_text import differ, ordinary_tokens

GRAPHS = 64
"""How many graphs a process may make."""

FIXED = ("sdpa", "eager")
"""The kinds of attention that take such a mask."""

Compiler = Callable[[Callable[..., Any]], Callable[..., Any]]

_compiled: "WeakKeyDictionary[nn.Module, Callable[..., Any]]" = WeakKeyDictionary()


@final
class CompiledPasses(Engine):
    """Compiles a decoder whose passes are static, each size of pass on its first use.

    That is any whose modules read a cache of fixed size rightly, and become one graph: a short text
    shows it when the model is loaded. Only the sequences of the model itself run compiled: those of
    its first layers, and batches, are left to its modules.

    compiler: turns a plain function into a fast one. Defaults to `torch.compile`, with CUDA graphs
        on a GPU ("reduce-overhead"). On a CPU its graphs could hold packed weights ("freezing"),
        but each size would hold a copy, and still be slower than `packed`. A compiler must not make
        numbers dynamic (`dynamic=False`), or it confuses which states are requested.
    """

    def __init__(self, compiler: Compiler | None = None) -> None:
        self._compiler = compiler

    def refusal(self, model: Model) -> str:
        name = type(model).__name__
        if has_states(model):
            return f"{name} keeps recurrent states beside its cache"
        if has_encoder(model) or not takes_places(model):
            return f"{name} takes no positions of tokens"
        if hasattr(model, "_hf_hook"):
            return "accelerate moves its parts between devices"
        if attention(model) not in FIXED:
            return f"{attention(model)} takes no mask of a fixed size, as {' and '.join(FIXED)} do"
        return ""

    def prepare(self, model: Model, quantize: str | None = None) -> None:
        self_test(model)  # its modules: the graphs have other sizes than the passes of the test
        _require_static(model)
        mode = "reduce-overhead" if model.device.type == "cuda" else "default"

        def compile_it(function: Callable[..., Any]) -> Callable[..., Any]:
            return torch.compile(function, fullgraph=True, dynamic=False, mode=mode)

        # One graph for each size and capacity is intended: raise torch's limit, which would warn.
        dynamo: Any = torch._dynamo.config
        dynamo.recompile_limit = max(dynamo.recompile_limit, GRAPHS)
        _compiled[model] = (self._compiler or compile_it)(uncompiled(model))

    def new_cache(self, model: Model) -> GrowingCache | PassCache:
        if model not in _compiled:
            return super().new_cache(model)
        return CompiledCache(model, _compiled[model])

    def runs_by(self, model: Model) -> str:
        return "compiled passes"

    def layout(self, model: nn.Module) -> str:
        return "compiled" if model in _compiled else super().layout(model)

    def can_repeat_test(self, model: Model) -> bool:
        return model not in _compiled


def _require_static(model: Model) -> None:
    """Raises `ConfigError` unless passes over a cache of fixed size are right, and one graph."""
    trace = torch.compile(uncompiled(model), backend="eager", fullgraph=True, dynamic=False)
    ids = torch.tensor([ordinary_tokens(model, 5)], device=model.device)
    try:
        expected = run_pass(model, GrowingCache(), PassInput(ids, 2)).logits[0]
        cache = CompiledCache(model, trace)
        with torch.no_grad():
            cache.feed(PassInput(ids[:, :3], 1))
            found = cache.feed(PassInput(ids[:, 3:], 2)).logits[0]
        reason = "other logits" if differ(found, expected) else ""
    except Exception as error:  # noqa: BLE001  whatever a model or a compiler may raise
        reason = f"{type(error).__name__}: {' '.join(str(error).split())[:120]}"
    if reason:
        raise ConfigError(
            f"optimize='compile': expected none, since {type(model).__name__} is not static: over a"
            f" cache of fixed size its passes have {reason}"
        )
