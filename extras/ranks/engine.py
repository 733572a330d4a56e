"""One model spread over the processes of torchrun, where the first rank leads the others."""

import atexit
import itertools
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, final

import torch
from jaxtyping import Float
from torch import Tensor, distributed

from outrider.base.errors import OutriderError, ProcessEnded, TargetError, described
from outrider.base.pretrained import Model
from outrider.base.terminal import remark
from outrider.extras.ranks import launch
from outrider.extras.ranks.launch import reaching
from outrider.extras.ranks.torchrun import FIELD, LOST, rank
from outrider.targets.passes.engine import Engine, Table, note_engine
from outrider.targets.passes.first_layers import depth, first_layers
from outrider.targets.passes.growing_cache import GrowingCache
from outrider.targets.passes.pass_input import Pass, PassCache, PassInput, run_modules
from outrider.targets.passes.placement import home
from outrider.targets.passes.recurrent import has_states

IDLE = timedelta(days=30)
"""How long the other ranks wait for an order: the first may be idle for long."""

Edit = tuple[int, tuple[int, ...]]
"""A number of last tokens in a cache, and which of them are kept; see `retain_rows`."""


@final
@dataclass(frozen=True, slots=True)
class Order:
    """A pass that the first rank orders from the others.

    cache: the number of the cache that the tokens are appended to.
    edits: the rollbacks of that cache before the pass.
    layers: how many of the model's layers run.
    dropped: the numbers of the caches that are no longer needed.
    inputs: the input of the pass, on the CPU.
    """

    cache: int
    edits: tuple[Edit, ...]
    layers: int
    dropped: tuple[int, ...]
    inputs: PassInput


@final
class Ranks(Engine):
    """Spreads a decoder over the processes of torchrun, by transformers' plan for it."""

    spreads = True

    def refusal(self, model: Model) -> str:
        is_spread = (getattr(model, "tp_size", None) or 1) > 1
        return "" if is_spread else f"the model was loaded as a whole: expected {FIELD}=true"

    def load_options(self, config: Any) -> dict[str, Any]:
        """Connects to the other ranks, and has each load its part of the weights.

        Raises `ConfigError` if there are no others, or the model can't be spread over them.
        """
        from transformers.distributed.configuration_utils import DistributedConfig

        launch.join()
        launch.require_fit(config)
        return {"distributed_config": DistributedConfig(tp_plan="auto")}

    def prepare(self, model: Model, quantize: str | None = None) -> None:
        """Does what `take_part` does, and raises what it raises.

        Raises `TargetError` if the model has recurrent states.
        """
        if has_states(model):
            name = type(model).__name__
            raise TargetError(f"model {name}: its states can't be spread over ranks")
        note_engine(model, self)  # the other ranks stay here
        take_part(model)

    def is_cut_off(self) -> bool:
        return LOST.is_set()

    def new_cache(self, model: Model) -> PassCache:
        return SpreadCache(model)

    def table(self, model: Model, name: Table) -> Float[Tensor, "vocab width"]:
        assert _first is not None, "only the first rank has drafters"
        with _first.leading(name):
            return _gathered(model, name)


def take_part(model: Model) -> None:
    """On the first rank, starts to lead the others. On another, follows it, and ends the process.

    Raises:
        TargetError: on another rank, the first has disappeared.
        ProcessEnded: on another rank, the first has ended normally, or will since a pass failed.
    """
    global _first
    with reaching():
        orders: Any = distributed.new_group(backend="gloo", timeout=IDLE)
    if rank() == 0:
        _first = FirstRank(model, orders)
        return
    try:
        _follow(model, orders)
    except OutriderError:
        raise
    except Exception as error:  # noqa: BLE001  whatever a model may raise; the first rank says it too
        remark(f"rank {rank()}: {described(error)}")
    distributed.destroy_process_group()
    raise ProcessEnded(0)


@final
class FirstRank:
    """The first rank, which tells the others what to run."""

    def __init__(self, model: Model, orders: Any) -> None:
        self._orders = orders
        self._together = self._broken = False
        self.dropped: list[int] = []
        for table in ("input_embeddings", "output_embeddings"):
            getattr(model, f"get_{table}")().register_forward_pre_hook(self._check)
        atexit.register(self._end)

    @contextmanager
    def leading(self, order: Order | Table | None) -> Iterator[None]:
        """Sends the others an order, which this rank has to run inside the block; None ends them.

        order: a pass, or a table of embeddings to gather.
        """
        if self._broken:
            raise TargetError("an earlier pass on several ranks broke off: expected a new run")
        try:
            with reaching():
                distributed.broadcast_object_list([order], src=0, group=self._orders)
                self._together = True
                yield
        except BaseException:
            self._broken = True  # the state of the other ranks is unknown
            raise
        finally:
            self._together = False

    def _check(self, *_: Any) -> None:
        """Raises `TargetError` instead of waiting forever for ranks that have no order."""
        if not self._together:
            raise TargetError(
                "a model that is spread over ranks was run by the first alone: expected it to be"
                " run through outrider.targets.passes.cached_model.CachedModel"
            )

    def _end(self) -> None:
        if not self._broken:
            with self.leading(None):
                pass
            distributed.destroy_process_group()


_first: FirstRank | None = None


@final
class SpreadCache(PassCache):
    """The first rank's cache of one text; each of the others has its own part of it.

    Rollbacks reach the others with the next pass.
    """

    _numbers = itertools.count()

    def __init__(self, model: Model) -> None:
        assert _first is not None, "only the first rank has sessions"
        self._model, self._first = model, _first
        self._own, self._layers = GrowingCache(), depth(model)
        self._number = next(self._numbers)
        self._edits: list[Edit] = []
        weakref.finalize(self, _first.dropped.append, self._number)

    def get_seq_length(self) -> int:
        return int(self._own.get_seq_length())

    def crop(self, count: int) -> None:
        if count:
            self.retain_rows(-count, ())

    def retain_rows(self, count: int, rows: Sequence[int]) -> None:
        self._own.retain_rows(count, rows)
        self._edits.append((count, tuple(rows)))

    def feed(self, inputs: PassInput) -> Pass:
        """Appends tokens on every rank."""
        dropped, edits = tuple(self._first.dropped), tuple(self._edits)
        sent = replace(inputs.to(torch.device("cpu")), states=tuple(sorted(inputs.states)))
        order = Order(self._number, edits, self._layers, dropped, sent)
        self._edits.clear()
        del self._first.dropped[: len(dropped)]
        with self._first.leading(order):
            return _run(self._model, order, self._own)


@torch.no_grad()
def _gathered(model: Any, name: Table) -> Float[Tensor, "vocab width"]:
    """Returns a table of embeddings as a whole, of which each rank has a part."""
    gathered: Tensor = getattr(model, f"get_{name}")().weight.full_tensor()
    return gathered


def _follow(model: Model, orders: Any) -> None:
    """Runs what the first rank orders, until that ends."""
    caches: dict[int, GrowingCache] = {}
    models = {depth(model): model}
    while True:
        received: list[Any] = [None]
        with reaching():
            distributed.broadcast_object_list(received, src=0, group=orders)
            order: Order | Table | None = received[0]
            if order is None:
                return
            if not isinstance(order, Order):
                _gathered(model, order)
                continue
            for number in order.dropped:
                caches.pop(number, None)
            cache = caches.setdefault(order.cache, GrowingCache())
            for count, rows in order.edits:
                cache.retain_rows(count, rows)
            if order.layers not in models:
                models[order.layers] = first_layers(model, order.layers)
            _run(models[order.layers], order, cache)


@torch.no_grad()
def _run(model: Model, order: Order, cache: GrowingCache) -> Pass:
    return run_modules(model, cache, order.inputs.to(home(model)))
