"""Functions of tensors that are recorded as CUDA graphs, and replayed with one launch."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, final

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_unflatten

from outrider.base.pretrained import Model
from outrider.contract.judge import Judges
from outrider.contract.programs import Programs
from outrider.extras.graphs.static_cache import CAPACITY, SIZES, lent
from outrider.targets.batches.batch_rows import BatchPasses, BatchRows
from outrider.targets.passes.pass_input import Pass, PassInput, run_modules

PLACES = 4
"""How many texts at once have recordings of their own."""

STALE = 100
"""A text whose last recording was played so many plays ago gives its place to another."""

WARMING = 2
"""How often a pass runs before it is recorded, so that libraries choose kernels and workspaces."""

Run = Callable[[], Any]
Recorder = Callable[[Run], tuple[Any, Callable[[], object]]]
"""Runs a function of tensors once, and returns what it returned, and what computes that again."""

Recording = tuple[Callable[[], object], Sequence[Tensor], Any]
"""What computes a function again, the tensors that it is given, and those that it returns."""


@final
class Recordings(Programs):
    """The graphs of a model or network, for each place of the buffers that it reads and writes.

    A graph is recorded at the first call with a key and shapes. Nothing is compiled: what is saved
    is the time to launch the kernels, which is most of a small pass. CUDA refuses to record what
    waits for the device.

    record: what records a function. Defaults to a CUDA graph.
    """

    def __init__(self, record: Recorder | None = None) -> None:
        self._record = record or _cuda_recorder()
        self._places: dict[Hashable, tuple[int, dict[Hashable, Recording]]] = {}  # with last plays
        self._free: dict[Any, list[Any]] = {}
        self._plays = 0

    def play(
        self,
        key: Hashable,
        function: Callable[..., Any],
        given: Sequence[Tensor],
        buffers: Sequence[Tensor] = (),
    ) -> Any:
        place = tuple((buffer.data_ptr(), buffer.shape) for buffer in buffers)
        self._plays += 1
        if place not in self._places and len(self._places) == PLACES:
            oldest = next(iter(self._places))
            if self._plays - self._places[oldest][0] < STALE:
                with torch.no_grad():  # recorded anew in each round, it would take far longer
                    return function(*given)
            del self._places[oldest]
        _, recordings = self._places.pop(place, (0, {}))
        self._places[place] = self._plays, recordings
        key = (key, *(tensor.shape for tensor in given))
        if key not in recordings:
            own = [tensor.clone() for tensor in given]
            with torch.no_grad():
                outputs, replay = self._record(partial(function, *own))
            recordings[key] = replay, own, outputs
        replay, inputs, outputs = recordings[key]
        for inner, outer in zip(inputs, given, strict=True):
            inner.copy_(outer)
        replay()
        return outputs

    def lend(self, holder: object, make: Callable[..., Any], texts: int = 1) -> Any:
        free = self._free.setdefault((make, texts), [])
        return lent(free, holder, partial(make, spare=CAPACITY, zeros=True))


@final
class Recorded(BatchPasses):
    """A function of a static cache's passes that replays its kernels, in a second a size.

    Judges decide in the same replay. Batches of a power of two of rows are replayed, too.

    function: as `uncompiled` returns it. record: as for `Recordings`.
    """

    sizes: Sequence[int] = SIZES

    def __init__(self, function: Callable[..., Any], record: Recorder | None = None) -> None:
        self._function, self._recordings = function, Recordings(record)
        self._free: dict[int, list[BatchRows]] = {}

    def __call__(
        self,
        ids: Tensor,
        buffers: Any,
        masks: Any,
        positions: Tensor,
        states: tuple[int, ...],
        *,
        judges: Judges | None = None,
    ) -> Any:
        leaves, layout = tree_flatten(masks)

        def run(ids: Tensor, positions: Tensor, slots: Tensor, *leaves: Tensor) -> Any:
            buffers.slots = slots
            whole = tree_unflatten(leaves, layout)
            return self._function(ids, buffers, whole, positions, states)

        given = [ids, positions, buffers.slots, *leaves]
        own = [buffer for layer in buffers.layers for buffer in layer.buffers]
        return self._judged(judges, ids.shape[1], run, given, own, key=states)

    def _judged(
        self,
        judges: Judges | None,
        size: int,
        function: Callable[..., tuple[Tensor, dict[int, Tensor]]],
        given: Sequence[Tensor],
        buffers: Sequence[Tensor],
        *,
        key: Hashable,
    ) -> Any:
        """Returns the logits and states of a pass, and what judges of `size` rows find, if any."""
        if judges is None:
            return self._recordings.play((key, None), function, given, buffers)
        numbers = judges.given(size, given[0].device)

        def run(*tensors: Tensor) -> Any:
            logits, states = function(*tensors[: len(given)])
            return logits, states, judges.run(logits, *tensors[len(given) :])

        key = key, judges.first.key
        return self._recordings.play(key, run, [*given, *numbers], buffers)

    def lend(self, holder: object, rows: int) -> BatchRows:
        count = 1 << (rows - 1).bit_length()
        made: BatchRows = lent(
            self._free.setdefault(count, []), holder, partial(BatchRows, count, CAPACITY)
        )
        return made

    def run(self, model: Model, rows: BatchRows, inputs: PassInput) -> Pass:
        slots, judges = rows.slots, inputs.judges

        def run(ids: Tensor, mask: Tensor, positions: Tensor, places: Tensor) -> Any:
            slots.texts = torch.arange(len(ids), device=ids.device)[:, None]
            slots.positions = places
            own = replace(inputs, ids=ids, mask=mask, positions=positions)
            result = run_modules(model, rows.cache, own)
            return result.logits, result.states

        given: Any = [inputs.ids, inputs.mask, inputs.positions, slots.positions]
        key, own = (inputs.rows, tuple(sorted(inputs.states))), rows.hold(0)
        logits, states, *found = self._judged(judges, inputs.rows, run, given, own, key=key)
        return Pass(
            logits.clone(),
            {number: state.clone() for number, state in states.items()},
            judges.verdicts(*found) if judges else (),
        )


def _cuda_recorder() -> Recorder:
    """Returns a recorder of CUDA graphs that share memory for what they don't return."""
    pool = torch.cuda.graph_pool_handle()

    def record(run: Run) -> tuple[Any, Callable[[], object]]:
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(WARMING):
                run()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        # What is returned is kept, so they may be replayed in any order.
        with torch.cuda.graph(graph, pool=pool):
            outputs = run()
        return outputs, graph.replay

    return record
