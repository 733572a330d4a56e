"""What engines share that run passes of a few sizes as graphs."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, final
from weakref import ref

import torch
from torch import nn

from outrider.base.errors import ConfigError, message_of
from outrider.base.pretrained import Model
from outrider.extras.graphs.static_cache import StaticCache, takes_places
from outrider.targets.passes.encoded import has_encoder
from outrider.targets.passes.engine import Engine, run_pass
from outrider.targets.passes.growing_cache import GrowingCache
from outrider.targets.passes.masks import attention
from outrider.targets.passes.pass_input import PassCache, PassInput
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
        model.__dict__[_NOTE] = _Graphs(model, self.faster(model))

    def new_cache(self, model: Model) -> GrowingCache | PassCache:
        passes = _graphs(model)
        return super().new_cache(model) if passes is None else StaticCache(model, passes)

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
