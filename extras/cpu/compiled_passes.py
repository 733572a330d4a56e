"""The engines that run passes of a few sizes as graphs: compiled, or recorded as they are."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, final
from weakref import WeakKeyDictionary

import torch
from torch import nn

from outrider.base.errors import ConfigError
from outrider.base.pretrained import Model
from outrider.extras.cpu.compiled_cache import CompiledCache, takes_places, uncompiled
from outrider.extras.cpu.recorded import Recorded
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

Passes = Callable[..., Any]
"""A function of passes, such as `uncompiled` returns."""

Compiler = Callable[[Passes], Passes]

_graphs: "WeakKeyDictionary[nn.Module, Passes]" = WeakKeyDictionary()


class StaticPasses(Engine):
    """Runs decoders whose passes are static, each size of pass as one graph.

    That is any whose modules read a cache of fixed size rightly, and become one graph: a short text
    shows it when the model is loaded. Only the sequences of the model itself run as graphs: those
    of its first layers, and batches, are left to its modules.

    name: the engine's, for messages.
    """

    name: ClassVar[str]

    @abstractmethod
    def faster(self, model: Model) -> Passes:
        """Returns the graphs of a model's passes, each made at its first use."""

    def trial(self, model: Model) -> Passes:
        """Returns what shows in less time whether a model's passes become graphs."""
        return self.faster(model)

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
        if reason := _is_not_static(model, self.trial(model)):
            raise ConfigError(
                f"optimize={self.name!r}: expected none, since {type(model).__name__} is not"
                f" static: over a cache of fixed size its passes have {reason}"
            )
        _graphs[model] = self.faster(model)

    def new_cache(self, model: Model) -> GrowingCache | PassCache:
        if model not in _graphs:
            return super().new_cache(model)
        return CompiledCache(model, _graphs[model])

    def layout(self, model: nn.Module) -> str:
        return self.name if model in _graphs else super().layout(model)

    def can_repeat_test(self, model: Model) -> bool:
        return model not in _graphs


@final
class CompiledPasses(StaticPasses):
    """Compiles passes by `torch.compile`, with CUDA graphs on a GPU ("reduce-overhead").

    On a CPU its graphs could hold packed weights ("freezing"), but each size would hold a copy, and
    still be slower than `packed`.

    compiler: turns a plain function into a fast one, in place of `torch.compile`. It must not make
        numbers dynamic (`dynamic=False`), or it confuses which states are requested.
    """

    name = "compile"

    def __init__(self, compiler: Compiler | None = None) -> None:
        self._compiler = compiler

    def faster(self, model: Model) -> Passes:
        if self._compiler is not None:
            return self._compiler(uncompiled(model))
        mode = "reduce-overhead" if model.device.type == "cuda" else "default"
        return torch.compile(uncompiled(model), fullgraph=True, dynamic=False, mode=mode)

    def trial(self, model: Model) -> Passes:
        # One graph for each size and capacity is intended: raise torch's limit, which would warn.
        dynamo: Any = torch._dynamo.config
        dynamo.recompile_limit = max(dynamo.recompile_limit, GRAPHS)
        return torch.compile(uncompiled(model), backend="eager", fullgraph=True, dynamic=False)

    def runs_by(self, model: Model) -> str:
        return "compiled passes"


@final
class RecordedPasses(StaticPasses):
    """Records the kernels of a model's modules as CUDA graphs, in about a second a size.

    recorder: records a plain function. Defaults to `Recorded`, which wants a GPU.
    """

    name = "graphs"

    def __init__(self, recorder: Compiler | None = None) -> None:
        self._recorder = recorder

    def refusal(self, model: Model) -> str:
        if self._recorder is None and model.device.type != "cuda":
            return f"CUDA graphs are recorded on a GPU, and the model is on {model.device.type}"
        return super().refusal(model)

    def faster(self, model: Model) -> Passes:
        return (self._recorder or Recorded)(uncompiled(model))

    def runs_by(self, model: Model) -> str:
        return "CUDA graphs of transformers' modules"


def _is_not_static(model: Model, passes: Passes) -> str:
    """Returns what passes over a cache of fixed size have; "" if they are right, and one graph."""
    ids = torch.tensor([ordinary_tokens(model, 5)], device=model.device)
    try:
        expected = run_pass(model, GrowingCache(), PassInput(ids, 2)).logits[0]
        cache = CompiledCache(model, passes)
        with torch.no_grad():
            cache.feed(PassInput(ids[:, :3], 1))
            found = cache.feed(PassInput(ids[:, 3:], 2)).logits[0]
        return "other logits" if differ(found, expected) else ""
    except Exception as error:  # noqa: BLE001  whatever a model or a compiler may raise
        return f"{type(error).__name__}: {' '.join(str(error).split())[:120]}"
