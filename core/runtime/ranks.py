"""Ranks: one model spread over the processes of torchrun, of which the first decides everything."""

import atexit
import itertools
import weakref
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, final

import torch
from jaxtyping import Float, Int
from torch import Tensor, distributed

from outrider.errors import TargetError
from outrider.runtime.cache import growing, retain_rows
from outrider.runtime.first_layers import first_layers
from outrider.runtime.launch import rank, reaching
from outrider.runtime.passes import Pass, plain_pass

if TYPE_CHECKING:
    from transformers import PreTrainedModel

IDLE = timedelta(days=30)
"""How long the others wait for what the first has them do next: it may have other things to do."""

Edit = tuple[int, tuple[int, ...]]
"""Of the last so many tokens of a cache, those that are kept."""


@final
@dataclass(frozen=True, slots=True)
class Order:
    """A pass that the first rank has the others take part in.

    cache, edits: where the tokens go, and what is taken out of it before.
    layers: how many of the model's layers run.
    dropped: the caches that are no longer needed.
    The rest is as in `outrider.runtime.step.run_pass`.
    """

    cache: int
    edits: tuple[Edit, ...]
    layers: int
    dropped: tuple[int, ...]
    ids: Int[Tensor, "batch tokens"]
    rows: int
    mask: Float[Tensor, "batch 1 tokens all"] | None
    positions: Int[Tensor, "batch tokens"] | None
    states: tuple[int, ...]


def is_sharded(model: "PreTrainedModel") -> bool:
    """Returns whether a model is spread over ranks."""
    return (getattr(model, "tp_size", None) or 1) > 1


def take_part(model: "PreTrainedModel") -> None:
    """On the first rank, leads the others from now on; on another, follows, and ends the process.

    Raises:
        TargetError: on another rank, where the first is gone.
        SystemExit: on another rank, where the first has ended as it should.
    """
    global _first
    with reaching():
        orders: Any = distributed.new_group(backend="gloo", timeout=IDLE)
    if rank() == 0:
        _first = First(model, orders)
        return
    _follow(model, orders)
    distributed.destroy_process_group()
    raise SystemExit(0)


@final
class First:
    """The first rank, which tells the others what to run."""

    def __init__(self, model: "PreTrainedModel", orders: Any) -> None:
        self._orders = orders
        self._together = self._broken = False
        self.dropped: list[int] = []
        loose: Any = model
        for module in (loose.get_input_embeddings(), loose.get_output_embeddings()):
            module.register_forward_pre_hook(self._check)
        atexit.register(self._end)

    @contextmanager
    def leading(self, order: "Order | str | None") -> Iterator[None]:
        """Has the others run an order, which this rank has to run inside."""
        if self._broken:
            raise TargetError("a pass on several ranks broke off before: expected a new run")
        try:
            with reaching():
                distributed.broadcast_object_list([order], src=0, group=self._orders)
                self._together = True
                yield
        except BaseException:
            self._broken = True  # who knows where the others are
            raise
        finally:
            self._together = False

    def _check(self, *_: Any) -> None:
        """Raises rather than waits, for ever, for ranks that have been told nothing."""
        if not self._together:
            raise TargetError(
                "a model that is spread over ranks was run by the first alone: expected it to be"
                " run through outrider.runtime.cached_model.CachedModel"
            )

    def _end(self) -> None:
        if not self._broken:
            with self.leading(None):
                pass
            distributed.destroy_process_group()


_first: First | None = None


@final
class SpreadCache:
    """The first rank's cache of one text; each of the others has its own part of it.

    What is taken out of it, the others hear of with the next pass.
    """

    _numbers = itertools.count()

    def __init__(self, model: "PreTrainedModel") -> None:
        assert _first is not None, "only the first rank has sessions"
        self._model, self._first = model, _first
        self._own = growing()
        self._number = next(self._numbers)
        self._edits: list[Edit] = []
        weakref.finalize(self, _first.dropped.append, self._number)

    def get_seq_length(self) -> int:
        """Returns the number of tokens."""
        return int(self._own.get_seq_length())

    def crop(self, count: int) -> None:
        """Takes the last -count tokens out."""
        if count:
            self.retain_rows(-count, ())

    def retain_rows(self, count: int, rows: Sequence[int]) -> None:
        """Of the last `count` tokens, keeps those at `rows`, in that order."""
        retain_rows(self._own, count, rows)
        self._edits.append((count, tuple(rows)))

    def feed(
        self,
        ids: Int[Tensor, "batch tokens"],
        rows: int,
        mask: Float[Tensor, "batch 1 tokens all"] | None,
        positions: Int[Tensor, "batch tokens"] | None,
        states: Collection[int],
    ) -> tuple[Float[Tensor, "batch rows vocab"], dict[int, Float[Tensor, "batch tokens width"]]]:
        """Appends tokens on every rank, as `outrider.runtime.step.run_pass` does."""
        layers = int(self._model.config.get_text_config().num_hidden_layers)
        dropped = tuple(self._first.dropped)
        places, edits = tuple(sorted(states)), tuple(self._edits)
        order = Order(
            self._number,
            edits,
            layers,
            dropped,
            ids.cpu(),
            rows,
            None if mask is None else mask.cpu(),
            None if positions is None else positions.cpu(),
            places,
        )
        self._edits.clear()
        del self._first.dropped[: len(dropped)]
        with self._first.leading(order):
            found = _run(self._model, order, self._own)
        return found.logits, found.states


def gather_weight(model: "PreTrainedModel", table: str) -> Float[Tensor, "vocab width"]:
    """Returns the weights of a model's table, which may be spread over the ranks.

    table: "input_embeddings" or "output_embeddings".
    """
    if not is_sharded(model):
        weight: Tensor = _weight(model, table)
        return weight
    assert _first is not None, "only the first rank has drafters"
    with _first.leading(table):
        gathered: Tensor = _weight(model, table).full_tensor()
    return gathered


def _weight(model: "PreTrainedModel", table: str) -> Any:
    return getattr(model, f"get_{table}")().weight


def _follow(model: "PreTrainedModel", orders: Any) -> None:
    """Does what the first rank says, until it says no more."""
    caches: dict[int, Any] = {}
    parts = {int(model.config.get_text_config().num_hidden_layers): model}
    while True:
        heard: list[Any] = [None]
        with reaching():
            distributed.broadcast_object_list(heard, src=0, group=orders)
            order: Order | str | None = heard[0]
            if order is None:
                return
            if isinstance(order, str):
                with torch.no_grad():
                    _weight(model, order).full_tensor()
                continue
            for number in order.dropped:
                caches.pop(number, None)
            cache = caches.setdefault(order.cache, growing())
            for count, rows in order.edits:
                retain_rows(cache, count, rows)
            if order.layers not in parts:
                parts[order.layers] = first_layers(model, order.layers)
            _run(parts[order.layers], order, cache)


def _run(model: "PreTrainedModel", order: Order, cache: Any) -> Pass:
    def here(tensor: Tensor | None) -> Tensor | None:
        return None if tensor is None else tensor.to(model.device)

    return plain_pass(
        model,
        order.ids.to(model.device),
        cache,
        rows=order.rows,
        mask=here(order.mask),
        positions=here(order.positions),
        states=order.states,
    )
