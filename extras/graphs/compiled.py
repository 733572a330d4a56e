"""The engine that compiles passes by `torch.compile`."""

from collections.abc import Callable
from typing import Any, final

import torch

from outrider.base.pretrained import Model
from outrider.extras.graphs.static_cache import uncompiled
from outrider.extras.graphs.static_passes import Passes, StaticPasses
from outrider.targets.passes.placement import home

GRAPHS = 64
"""How many graphs a process may make."""


@final
class CompiledPasses(StaticPasses):
    """Compiles passes by `torch.compile`, with CUDA graphs on a GPU ("reduce-overhead").

    On a CPU its graphs could hold packed weights ("freezing"), but each size would hold a copy, and
    still be slower than `packed`.

    compiler: turns a plain function into a fast one, in place of `torch.compile`. It must not make
        numbers dynamic (`dynamic=False`), or it confuses which states are requested.
    """

    name = "compile"

    def __init__(self, compiler: Callable[[Passes], Passes] | None = None) -> None:
        self._compiler = compiler

    def faster(self, model: Model) -> Passes:
        if self._compiler is not None:
            return self._compiler(uncompiled(model))
        mode = "reduce-overhead" if home(model).type == "cuda" else "default"
        return torch.compile(uncompiled(model), fullgraph=True, dynamic=False, mode=mode)

    def trial(self, model: Model) -> Passes:
        # One graph for each size and capacity is intended: raise torch's limit, which would warn.
        dynamo: Any = torch._dynamo.config
        dynamo.recompile_limit = max(dynamo.recompile_limit, GRAPHS)
        return torch.compile(uncompiled(model), backend="eager", fullgraph=True, dynamic=False)

    def runs_by(self, model: Model) -> str:
        return "compiled passes"
