"""The engines that run passes as graphs: by `torch.compile`, or as recorded kernels."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, final
from weakref import ref

import torch
from torch import nn

from outrider.base.errors import ConfigError, message_of
from outrider.base.pretrained import Model
from outrider.contract.programs import Programs
from outrider.extras.graphs.recordings import Recorded, Recorder, Recordings
from outrider.extras.graphs.static_cache import StaticCache, uncompiled
from outrider.targets.batches.batch_cache import BatchCache, BatchEngine
from outrider.targets.batches.batch_rows import PaddedBatch
from outrider.targets.passes.encoded import has_encoder
from outrider.targets.passes.engine import Engine, run_pass
from outrider.targets.passes.growing_cache import GrowingCache
from outrider.targets.passes.masks import attention
from outrider.targets.passes.pass_input import PassCache, PassInput, takes
from outrider.targets.passes.placement import home
from outrider.targets.passes.recurrent import has_states
from outrider.targets.self_test import self_test
from outrider.targets.self_test_text import differ, ordinary_tokens

FIXED = ("sdpa", "eager")
"""The kinds of attention that take such a mask."""

Passes = Callable[..., Any]
"""A function of passes, such as `uncompiled` returns."""

_NOTE = "_outrider_graphs"
"""The attribute of a model that holds its graphs; they hold the model, so both go together."""

GRAPHS = 64
"""How many graphs a process may compile."""


@final
class _Graphs:
    """The graphs of one model. Its copies have this note too, and run by their modules.

    Copied deeply or pickled, it is empty: recorded graphs can't be copied, and are of no use there.
    """

    def __init__(self, model: Model | None = None, passes: Passes | None = None) -> None:
        self._model, self._passes = None if model is None else ref(model), passes

    def __reduce__(self) -> tuple[type["_Graphs"], tuple[()]]:
        return _Graphs, ()

    def of(self, model: nn.Module) -> Passes | None:
        """Returns a model's graphs; None for a copy of the model that they were made for."""
        is_own = self._model is not None and self._model() is model
        return self._passes if is_own else None


def _graphs(model: nn.Module) -> Passes | None:
    """Returns a model's graphs, None if it has none of its own."""
    note: _Graphs | None = model.__dict__.get(_NOTE)
    return None if note is None else note.of(model)


class StaticPasses(Engine):
    """Runs decoders whose passes are static, each size of pass as one graph.

    That is any whose modules read a cache of fixed size rightly, and become one graph: a short text
    shows it when the model is loaded. Only the sequences of the model itself run as graphs: those
    of its first layers, and batches by default, are left to its modules.

    name: the engine's, for messages. judges: whether its graphs take judges.
    """

    name: ClassVar[str]
    judges: ClassVar[bool] = False

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
        if has_encoder(model) or not takes(type(model).forward, "position_ids"):
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
        model.__dict__[_NOTE] = _Graphs(model, self.faster(model))

    def new_cache(self, model: Model) -> GrowingCache | PassCache:
        passes = _graphs(model)
        if passes is None:
            return super().new_cache(model)
        return StaticCache(model, passes, judges=self.judges)

    def layout(self, model: nn.Module) -> str:
        return super().layout(model) if _graphs(model) is None else self.name

    def can_repeat_test(self, model: Model) -> bool:
        return _graphs(model) is None


def _is_not_static(model: Model, passes: Passes) -> str:
    """Returns what passes over a cache of fixed size have; "" if they are right, and one graph."""
    ids = torch.tensor([ordinary_tokens(model, 5)], device=home(model))
    try:
        expected = run_pass(model, GrowingCache(), PassInput(ids, 2)).logits[0]
        cache = StaticCache(model, passes)
        with torch.no_grad():
            cache.feed(PassInput(ids[:, :3], 1))
            found = cache.feed(PassInput(ids[:, 3:], 2)).logits[0]
        return "other logits" if differ(found, expected) else ""
    except Exception as error:  # noqa: BLE001  whatever a model or a compiler may raise
        return f"{type(error).__name__}: {message_of(error)[:120]}"


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


@final
class RecordedPasses(StaticPasses, BatchEngine):
    """Records the kernels of a model's modules as CUDA graphs, in about a second a size.

    The chains of drafters that are networks are recorded too, each as one program; so are the
    passes of batches, and what the rule decides on chains, with the pass that scores them.

    record: as for `Recordings`. Defaults to a CUDA graph, which wants a GPU.
    """

    name = "graphs"
    judges = True

    def __init__(self, record: Recorder | None = None) -> None:
        self._record = record

    def refusal(self, model: Model) -> str:
        if self._record is None and home(model).type != "cuda":
            return f"CUDA graphs are recorded on a GPU, and the model is on {home(model).type}"
        return super().refusal(model)

    def faster(self, model: Model) -> Recorded:
        return Recorded(uncompiled(model), self._record)

    def new_batch(self, model: Model, sequences: int, capacity: int) -> BatchCache | None:
        passes: Any = _graphs(model)
        return None if passes is None else PaddedBatch(model, sequences, capacity, passes)

    def programs(self, network: nn.Module) -> Programs | None:
        is_near = all(weight.device.type == "cpu" for weight in network.parameters())
        return None if is_near else Recordings(self._record)

    def runs_by(self, model: Model) -> str:
        return "CUDA graphs of transformers' modules"
